() => {
  // Texts whose contrast to what is behind them is below that of WCAG 2.2, level AA.
  const faint = () => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgba = (colour) => {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      return canvas.getImageData(0, 0, 1, 1).data;
    };
    const luminance = (colour) => {
      const [r, g, b] = [...colour].slice(0, 3).map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
      for (let e = element; e; e = e.parentElement) {
        const colour = rgba(getComputedStyle(e).backgroundColor);
        if (colour[3] === 255) return colour;
      }
      return rgba('Canvas');
    };
    const known = new Map(), found = [];
    for (const element of document.body.querySelectorAll('*')) {
      const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
      if (!own || element.closest('svg, script') || !element.offsetParent) continue;
      const [front, back] = [getComputedStyle(element).color, behind(element)];
      const key = front + back;
      if (!known.has(key)) {
        const [a, b] = [luminance(rgba(front)), luminance(back)];
        known.set(key, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
      }
      if (known.get(key) < 4.5) found.push([element.tagName, element.className, element.textContent.slice(0, 40), known.get(key)]);
    }
    return found;
  };
  // Texts of figures that reach beyond their figure.
  const cut = () => [...document.querySelectorAll('svg')].flatMap((svg) => {
    const view = svg.viewBox.baseVal;
    if (!svg.getBoundingClientRect().width) return [];
    return [...svg.querySelectorAll('text')].flatMap((text) => {
      const box = text.getBBox();
      const beyond = Math.max(view.x - box.x, view.y - box.y, box.x + box.width - view.x - view.width, box.y + box.height - view.y - view.height);
      return beyond > 0.5 ? [[text.textContent.slice(0, 40), beyond]] : [];
    });
  });
  return { faint: document.body ? faint() : [], cut: cut() };
}
