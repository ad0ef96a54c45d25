(() => {
'use strict';
const all = (what, from = document) => [...from.querySelectorAll(what)];
const one = (id) => document.getElementById(id);
document.documentElement.classList.add('js');
const cards = one('cards'), cells = all('.grid a');

// One card at a time: that of the head under the pointer, else the chosen one.
let chosen = null;
const playing = [];
const show = (name) => {
  const card = name && one(name);
  if (!card) return;
  all('.chosen').forEach((other) => other.classList.remove('chosen'));
  card.classList.add('chosen');
  metricsOf(card);
  playing.forEach((play) => play(name, card));
};
const choose = (name) => {
  chosen = name;
  cells.forEach((cell) => {
    if (cell.hash === '#' + name) cell.setAttribute('aria-current', 'true');
    else cell.removeAttribute('aria-current');
  });
  show(name);
};
if (cards) {
  cards.classList.add('one');
  cards.setAttribute('aria-live', 'polite');
  cells.forEach((cell) => {
    const name = cell.hash.slice(1);
    cell.addEventListener('mouseenter', () => show(name));
    cell.addEventListener('mouseleave', () => show(chosen));
    cell.addEventListener('focus', () => show(name));
    cell.addEventListener('click', (event) => {
      event.preventDefault();
      choose(name);
      history.replaceState(null, '', cell.hash);
    });
  });
  const across = all('.grid thead th').length;
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across };
  one('heads').addEventListener('keydown', (event) => {
    const place = cells.indexOf(document.activeElement), step = steps[event.key];
    const next = place >= 0 && step ? cells[place + step] : null;
    if (next) { event.preventDefault(); next.focus(); }
  });
  // Where heads are cut off at the side, the grid says that it scrolls.
  const frame = one('heads').querySelector('.wide');
  const hint = () => frame.classList.toggle('more', frame.scrollWidth > frame.clientWidth);
  addEventListener('resize', hint);
  hint();
  one('all').addEventListener('change', (event) => cards.classList.toggle('one', !event.target.checked));
  one('family').addEventListener('change', (event) => {
    const wanted = event.target.value;
    let count = 0;
    cells.forEach((cell) => {
      const has = !wanted || cell.dataset.f.split(' ').includes(wanted);
      count += has;
      cell.classList.toggle('off', !has);
      one(cell.hash.slice(1)).hidden = !has;
    });
    one('count').textContent = wanted ? count + ' of ' + cells.length + ' heads' : '';
  });
}

// Tables are sorted by a column: numbers by their value, the rest as text.
const number = (text) => {
  const found = text.replace(/\u2212/g, '-').match(/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?/);
  return found ? parseFloat(found[0]) : NaN;
};
all('table.sort').forEach((table) => {
  const heads = all('thead th', table), body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener('click', () => {
      const down = head.getAttribute('aria-sort') === 'descending';
      heads.forEach((other) => other.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', down ? 'ascending' : 'descending');
      const key = (row) => row.cells[column].textContent.trim();
      const by = (a, b) => {
        const [x, y] = [number(key(a)), number(key(b))];
        if (isNaN(x) || isNaN(y)) return isNaN(x) && isNaN(y) ? key(a).localeCompare(key(b)) : isNaN(x) ? 1 : -1;
        return down ? x - y : y - x;
      };
      body.append(...[...body.rows].sort(by));
    });
  });
});

// A metric as a heat map: its table again, with a step of colour under each number.
const maps = all('table.map');
const colour = (table) => {
  const numbers = all('td', table).map((cell) => [cell, number(cell.textContent)]).filter(([, value]) => !isNaN(value));
  const values = numbers.map(([, value]) => value), least = Math.min(...values), most = Math.max(...values);
  numbers.forEach(([cell, value]) => {
    const step = most > least ? Math.min(8, Math.floor((value - least) / (most - least) * 9)) : 4;
    cell.className = 'c' + step;
  });
};
const select = one('metric'), groups = all('details.group');
if (select && maps.length) {
  groups.forEach((group) => {
    const list = document.createElement('optgroup');
    list.label = group.dataset.n;
    all('table.map', group).forEach((table) => list.append(new Option(table.dataset.n, maps.indexOf(table))));
    select.append(list);
  });
  const draw = () => {
    const table = maps[select.value].cloneNode(true);
    const about = document.createElement('p');
    about.textContent = maps[select.value].closest('details').querySelector('p').textContent;
    colour(table);
    one('map').replaceChildren(table, about);
    one('map').hidden = false;
  };
  const start = maps.findIndex((table) => table.dataset.n === 'entropy_ratio');
  select.value = Math.max(0, start);
  select.addEventListener('change', draw);
  draw();
  all('details.metric').forEach((details) => details.addEventListener('toggle', () => all('table.map', details).forEach(colour)));
}

// The metrics of a head, out of these tables, under its card: those of each study together.
function metricsOf(card) {
  if (card.querySelector('.metrics')) return;
  const [, layer, head] = card.id.match(/^L(\d+)H(\d+)$/) || [];
  if (!head || !maps.length) return;
  const list = document.createElement('div');
  list.className = 'groups';
  list.append('Metrics:');
  groups.forEach((group) => {
    const details = document.createElement('details'), summary = document.createElement('summary');
    details.className = 'metrics';
    summary.textContent = group.querySelector('summary').textContent.replace(/\D*$/, '');
    details.append(summary);
    details.addEventListener('toggle', () => {
      if (details.children.length > 1) return;
      const table = document.createElement('table');
      all('table.map', group).forEach((map) => {
        const row = table.insertRow();
        row.insertCell().textContent = map.dataset.n;
        row.insertCell().textContent = map.rows[+layer + 1].cells[+head + 1].textContent;
        row.insertCell().textContent = map.caption.querySelector('span').textContent;
      });
      details.append(table);
    });
    list.append(details);
  });
  card.append(list);
}
const levels = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const make = (tag, name, ...parts) => {
  const element = document.createElement(tag);
  element.className = name;
  element.append(...parts);
  return element;
};
// A label's score as a bar, with its interval, what it is held beside, and its threshold.
all('.labels tbody tr').forEach((row) => {
  const [, scored, besides, limits] = row.cells, values = [scored, besides, limits].map((cell) => number(cell.textContent));
  const [score, beside, limit] = values, ends = (scored.textContent.match(/\[(.*), (.*)\]/) || []).slice(1).map(number);
  if (isNaN(score)) return;
  const most = Math.max(1, ...values.concat(ends).filter((value) => !isNaN(value)));
  const bar = make('td', 'bar'), share = (value) => 100 * Math.max(0, value) / most;
  bar.setAttribute('aria-hidden', 'true');
  const mark = (name, from, to) => {
    const part = make('i', name);
    part.style.left = share(from) + '%';
    if (to !== undefined) part.style.width = share(to) - share(from) + '%';
    bar.append(part);
  };
  mark('fill', 0, score);
  if (ends.length) mark('spread', ...ends);
  if (!isNaN(beside)) mark('chance', beside);
  if (!isNaN(limit)) mark('limit', limit);
  scored.after(bar);
});
// A sentence to play with: who attends on the left, to whom on the right, with lines for one head; a token under the pointer or with
// the focus has its own lines alone, and a click keeps it.
const play = (source, tokens, maps, names, take) => {
  const [units, arcs] = [source.dataset.units, source.dataset.arcs].map((text) => JSON.parse(text || '[]'));
  const isWord = (at) => units.some(([, from, to, word]) => word && from <= at && at < to);
  const single = tokens.map((text, at) => [text, at, at + 1, !units.length || isWord(at)]);
  const option = (text, on) => {
    const box = make('input', '');
    box.type = 'checkbox';
    box.checked = on;
    box.addEventListener('change', () => build());
    return [make('label', '', box, ' ' + text), box];
  };
  const heads = make('select', ''), told = make('p', 'key-line'), lines = make('div', 'lines'), sides = [make('div', 'side'), make('div', 'side')];
  const [wordsLabel, words] = option('words', units.length > 0), [plainLabel, plain] = option('hide special tokens', false);
  const [treeLabel, tree] = option('tree', true);
  heads.append(...names.map((name) => new Option(name)));
  heads.addEventListener('change', () => { take(heads.value); heads.focus(); draw(); });
  wordsLabel.hidden = plainLabel.hidden = !units.length;
  treeLabel.hidden = !arcs.length;
  told.setAttribute('aria-live', 'polite');
  sides.forEach((side, right) => {
    side.setAttribute('role', 'group');
    side.setAttribute('aria-label', right ? 'attended to' : 'attends');
  });
  let rows = [], kept = null, seen = null;
  const weight = (from, to) => {
    const map = maps[heads.selectedIndex], [, a, b] = rows[from], [, c, d] = rows[to];
    let sum = 0;
    for (let i = a; i < b; i++) for (let j = c; j < d; j++) sum += map[i * tokens.length + j];
    return sum / (b - a);
  };
  const gold = () => !tree.checked || treeLabel.hidden ? [] : arcs.map(([from, to, name]) => {
    const row = (unit) => rows.findIndex(([, start]) => start === units[unit][1]);
    return [row(from), row(to), name];
  }).filter(([from, to]) => from >= 0 && to >= 0);
  const draw = () => {
    const at = seen || kept, paths = [], height = 24 * rows.length;
    const path = (from, to, about) => paths.push('<path d="M0 ' + (24 * from + 12) + 'L100 ' + (24 * to + 12) + '" ' + about + ' vector-effect="non-scaling-stroke"/>');
    const isSeen = (ends) => !at || ends[at[0]] === at[1];
    const pairs = rows.flatMap((_, from) => rows.map((_, to) => [from, to, weight(from, to)])).filter(isSeen);
    // Less than two levels of 63 is hardly to be seen, and may be one that was rounded up.
    pairs.filter(([, , value]) => value > 1.5 / 63).forEach(([from, to, value]) =>
      path(from, to, 'stroke="var(--accent)" stroke-opacity="' + Math.sqrt(value).toFixed(2) + '" stroke-width="' + (1 + 4 * value).toFixed(1) + '"'));
    const shown = gold().filter(isSeen);
    shown.forEach(([from, to]) => path(from, to, 'stroke="var(--second)" stroke-width="2" stroke-dasharray="5 4"'));
    lines.innerHTML = '<svg viewBox="0 0 100 ' + height + '" style="height:' + height + 'px" preserveAspectRatio="none" aria-hidden="true">' + paths.join('') + '<\/svg>';
    const other = at && 1 - at[0];
    const most = at ? pairs.sort((a, b) => b[2] - a[2]).slice(0, 3).filter((pair) => pair[2] >= 0.01).map((pair) => rows[pair[other]][0] + ' ' + pair[2].toFixed(2)) : [];
    const relations = at ? shown.map((arc) => arc[2] + ' ' + rows[arc[other]][0]) : [];
    told.textContent = heads.value + (at ? ': ' + rows[at[1]][0] + (other ? ' attends to ' : ' is attended to by ') + most.join(', ')
      + (relations.length ? '; in the tree: ' + relations.join(', ') : '') : ': attention from the left to the right' + (shown.length ? '; dashed: the tree' : ''));
    sides.forEach((side, right) => [...side.children].forEach((button, row) =>
      button.setAttribute('aria-pressed', Boolean(kept) && kept[0] === right && kept[1] === row)));
  };
  const build = () => {
    rows = (words.checked ? units : single).filter((row) => !plain.checked || row[3]);
    kept = seen = null;
    sides.forEach((side, right) => side.replaceChildren(...rows.map(([text], row) => {
      const button = make('button', '', text), look = (at) => { seen = at; draw(); };
      button.type = 'button';
      button.tabIndex = row ? -1 : 0;
      for (const event of ['mouseenter', 'focus']) button.addEventListener(event, () => look([right, row]));
      for (const event of ['mouseleave', 'blur']) button.addEventListener(event, () => look(null));
      button.addEventListener('click', () => {
        kept = kept && kept[0] === right && kept[1] === row ? null : [right, row];
        draw();
      });
      button.addEventListener('keydown', (event) => {
        const step = { ArrowUp: [right, row - 1], ArrowDown: [right, row + 1], ArrowLeft: [0, row], ArrowRight: [1, row] }[event.key];
        const next = step && sides[step[0]].children[step[1]];
        if (event.key === 'Escape') { kept = null; draw(); }
        if (!next) return;
        event.preventDefault();
        all('button', next.parentElement).forEach((one) => { one.tabIndex = -1; });
        next.tabIndex = 0;
        next.focus();
      });
      return button;
    })));
    draw();
  };
  const place = make('section', 'play', make('div', 'tools', make('label', '', 'Head ', heads), wordsLabel, plainLabel, treeLabel),
    make('div', 'pair', sides[0], lines, sides[1]), told);
  place.setAttribute('aria-label', 'A sentence to play with');
  source.before(place);
  build();
  return (name, card) => {
    const at = names.indexOf(name);
    if (at < 0) return;
    heads.selectedIndex = at;
    if (card) card.querySelector('p').after(place);
    draw();
  };
};
// Thumbnails of the attention of every head over a sentence; the one under the pointer stands large beside them, with its tokens.
all('.thumbnails').forEach((place) => {
  const heads = +place.dataset.heads, tokens = JSON.parse(place.dataset.tokens), count = tokens.length;
  const maps = place.dataset.maps.split(' ').map((map) => [...map].map((letter) => levels.indexOf(letter) / 63));
  const nameOf = (at) => 'L' + Math.floor(at / heads) + 'H' + at % heads;
  const names = place.dataset.names ? place.dataset.names.split(' ') : maps.map((_, at) => nameOf(at));
  const follow = play(place, tokens, maps, names, (name) => {
    if (cards) choose(name);
    else if (heads) look(chosen = names.indexOf(name));
  });
  if (cards) playing.push(follow);
  if (!heads) return;
  const paint = (canvas, at) => {
    canvas.width = canvas.height = count;
    const ink = getComputedStyle(place).getPropertyValue('--accent').match(/\w\w/g).map((part) => parseInt(part, 16));
    const image = new ImageData(count, count);
    // The root of a weight: what is weak is seen as well.
    maps[at].forEach((weight, pair) => image.data.set([...ink, 255 * Math.sqrt(weight)], 4 * pair));
    canvas.getContext('2d').putImageData(image, 0, 0);
  };
  const large = make('canvas', ''), title = make('b', ''), told = make('p', 'key-line');
  const axis = (name) => make('div', name, ...tokens.map((token) => make('span', '', token)));
  told.setAttribute('aria-live', 'polite');
  let chosen = Math.max(0, cards ? maps.findIndex((_, at) => nameOf(at) === cards.dataset.first) : 0), seen = chosen;
  const look = (at) => {
    seen = at;
    title.textContent = cells[at] ? cells[at].title : nameOf(at);
    paint(large, at);
  };
  const tell = (canvas, at) => canvas.addEventListener('mousemove', (event) => {
    const box = canvas.getBoundingClientRect(), last = count - 1;
    const to = Math.min(last, Math.floor((event.clientX - box.left) / box.width * count));
    const from = Math.min(last, Math.floor((event.clientY - box.top) / box.height * count));
    const weight = maps[at()][Math.max(0, from) * count + Math.max(0, to)];
    told.textContent = nameOf(at()) + ': from ' + tokens[from] + ' to ' + tokens[to] + ' ' + weight.toFixed(2);
  });
  const table = make('table', 'thumbs'), top = table.createTHead().insertRow(), body = table.createTBody();
  top.append(make('td', ''), ...Array.from({ length: heads }, (_, head) => make('th', '', 'H' + head)));
  const canvases = maps.map((_, at) => {
    if (at % heads === 0) body.insertRow().append(make('th', '', 'L' + at / heads));
    const canvas = make('canvas', ''), link = make('a', '', canvas);
    link.href = '#' + nameOf(at);
    link.setAttribute('aria-label', 'Attention of ' + nameOf(at));
    if (cells[at]) link.append(make('small', '', cells[at].firstChild.textContent));
    for (const event of ['mouseenter', 'focus']) link.addEventListener(event, () => look(at));
    link.addEventListener('mouseleave', () => look(chosen));
    link.addEventListener('click', (event) => {
      event.preventDefault();
      chosen = at;
      if (!cards) return follow(nameOf(at));
      choose(nameOf(at));
      one(nameOf(at)).scrollIntoView({ block: 'center' });
    });
    tell(canvas, () => at);
    body.rows[body.rows.length - 1].insertCell().append(link);
    return canvas;
  });
  tell(large, () => seen);
  const axes = make('div', 'axes', make('span', '', 'from \u2193 to \u2192'), axis('to'), axis('from'), large);
  place.append(make('div', 'wide', table), make('div', 'wide large', make('p', '', title), axes, told));
  const draw = () => { canvases.forEach(paint); look(seen); };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  draw();
});

// A link to a head, on a card or elsewhere, opens its card.
if (cells.length) {
  const named = () => cells.some((cell) => cell.hash === location.hash) && location.hash.slice(1);
  choose(named() || cards.dataset.first);
  addEventListener('hashchange', () => {
    if (!named()) return;
    choose(named());
    one(named()).scrollIntoView({ block: 'nearest' });
  });
}
})();
