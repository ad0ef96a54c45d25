"""Opens a page of headscope in a real browser and uses it as a person would.

python tests/browser.py CHROMIUM PAGE.html [--screenshots FOLDER] [--blessed FOLDER [--bless]]
python tests/browser.py CHROMIUM FIGURE.svg ...
python tests/browser.py CHROMIUM PAGE.html --picture docs/figures/page.png

The browser is driven over its devtools pipe with the standard library alone. It fails on a console message, a request to any
network, text that does not stand out, a page wider than its window, a text of a figure that is cut, controls without a name, or a
control that does nothing; and, with --blessed, where the page looks other than a person saw it. --bless writes what it looks like now, to be looked at
before it is kept. Screenshots of the whole page go to a folder, if one is given. --picture writes the first screen of a page,
as the README has it, and tests nothing. Looking at pictures needs Pillow from PyPI.
"""

import argparse
import base64
import io
import json
import os
import pathlib
import subprocess
import tempfile
import time

AUDIT = pathlib.Path(__file__).with_name("browser_audit.js").read_text()


class Browser:
    """A headless Chromium behind a pair of pipes; messages are JSON, each ended by a zero byte."""

    def __init__(self, program, profile):
        (its_input, self.output), (self.input, its_output) = os.pipe(), os.pipe()

        def pipes():
            # As the browser expects them: it reads 3 and writes 4.
            high = [os.dup2(its_input, 103), os.dup2(its_output, 104)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        flags = ["--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--hide-scrollbars"]
        # Within a container there is nothing that the sandbox could rest on.
        flags += ["--no-sandbox", "--disable-dev-shm-usage"] if os.geteuid() == 0 else []
        command = [program, *flags, "--disable-background-networking", f"--user-data-dir={profile}", "about:blank"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, close_fds=False, preexec_fn=pipes, **quiet)
        os.close(its_input)
        os.close(its_output)
        self.number, self.session, self.events, self.rest = 0, None, [], b""
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self.session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network", "DOM", "Accessibility"]:
            self(f"{domain}.enable")

    def read(self):
        while b"\0" not in self.rest:
            more = os.read(self.input, 1 << 20)
            assert more, "the browser has ended"
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def __call__(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.output, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def evaluate(self, expression):
        answer = self("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, (expression, answer["exceptionDetails"])
        return answer["result"].get("value")

    def open(self, address):
        self.events.clear()
        self("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.read())

    def key(self, name, code=None, text=None):
        down = {"type": "keyDown", "key": name, "code": code or name}
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40}
        down["windowsVirtualKeyCode"] = codes.get(name, 0)
        if text:
            down["text"] = text
        self("Input.dispatchKeyEvent", **down)
        self("Input.dispatchKeyEvent", type="keyUp", key=name, code=code or name)

    def middle(self, selector):
        """The middle of an element in the window, after it was scrolled to."""
        return self.evaluate(
            f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView({{block: 'center'}});"
            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )

    def pointer(self, selector, click=False):
        x, y = self.middle(selector)
        self("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ["mousePressed", "mouseReleased"] if click else []:
            self("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def complaints(self):
        """What the console said, and what was asked of a network."""
        found = []
        for event in self.events:
            method, about = event.get("method"), event.get("params", {})
            if method in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
                found.append(json.dumps(about)[:500])
            if method == "Network.requestWillBeSent" and not about["request"]["url"].startswith(("file:", "data:")):
                found.append("request: " + about["request"]["url"])
        return found

    def close(self):
        self.process.terminate()
        self.process.wait()


# What is looked at: the grid, and the first figures. Text around them flows as the fonts of a machine have it; within them
# everything has its place.
PICTURES = "[...document.querySelectorAll('.grid, .figure svg')].slice(0, 8)"
# In blocks of so many pixels: letters are smaller than that, so that another font is not another picture.
BLOCK = 8
# The grid is as wide as its fonts are: of whatever size it is made that many blocks.
GRID = (100, 60)
# A block looks other by more than this in any colour, of 255; and so large a share of them may, where letters differ: with a serif
# font 0.1 % do, without the marks of figures 1 %.
OTHER = 40
MOST_OTHER = 0.005


def look(browser, name, blessed, bless):
    """Holds grid and figures, one below the other, against the picture that was blessed, in blocks; says how much is other."""
    from PIL import Image, ImageChops

    rect = "((e) => { const r = e.getBoundingClientRect(); return [e.tagName, r.x + scrollX, r.y + scrollY, r.width, r.height]; })"
    pictures = []
    for tag, x, y, width, height in browser.evaluate(f"{PICTURES}.map({rect})"):
        clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        shot = browser("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        picture = Image.open(io.BytesIO(base64.b64decode(shot))).convert("RGB")
        size = GRID if tag == "TABLE" else (round(width) // BLOCK, round(height) // BLOCK)
        pictures.append(picture.resize(size, Image.Resampling.BOX))
    assert pictures, f"{name}: there is neither a grid nor a figure to look at"
    found = Image.new("RGB", (max(one.width for one in pictures), sum(one.height for one in pictures)))
    top = 0
    for one in pictures:
        found.paste(one, (0, top))
        top += one.height
    file = pathlib.Path(blessed, f"{name}.png")
    if bless:
        found.save(file, optimize=True)
    expected = Image.open(file).convert("RGB")
    assert found.size == expected.size, f"{name}: figures of other sizes than in {file}: {found.size}, {expected.size}"
    bands = ImageChops.difference(found, expected).split()
    other = sum(max(pixel) > OTHER for pixel in zip(*(band.tobytes() for band in bands)))
    share = other / (found.width * found.height)
    assert share <= MOST_OTHER, f"{name}: {share:.1%} look other than in {file}: look at it, and --bless it if it is right"
    return share


def themes_and_widths(browser, address, folder, blessed, bless):
    for theme in ["light", "dark"]:
        for width in [360, 900, 1600]:
            browser("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
            metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700}
            browser("Emulation.setDeviceMetricsOverride", **metrics)
            start = time.monotonic()
            browser.open(address)
            loaded = time.monotonic() - start
            where = f"{theme} at {width}"
            assert browser.complaints() == [], (where, browser.complaints())
            wide = browser.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, (where, "the page is wider than its window", wide)
            audit = browser.evaluate(f"({AUDIT})()")
            assert audit == {"faint": [], "cut": []}, (where, audit["faint"][:10], audit["cut"][:10])
            print(f"{where}: loaded in {loaded:.2f} s, no complaint, no request, all text stands out and none is cut")
            if width > 1500:
                first_screen(browser)
            if folder:
                height = browser.evaluate("document.documentElement.scrollHeight")
                clip = {"x": 0, "y": 0, "width": width, "height": min(height, 16000), "scale": 1}
                shot = browser("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
                pathlib.Path(folder, f"{pathlib.Path(address).stem}-{theme}-{width}.png").write_bytes(base64.b64decode(shot))
            if blessed and width > 1500:
                share = look(browser, f"{pathlib.Path(address).stem}-{theme}", blessed, bless)
                print(f"{where}: {share:.1%} of grid and figures look other than blessed")


def first_screen(browser):
    """The grid of a report with the card of a head beside it, and its caveats behind one line."""
    box = "((e) => { const r = e && e.getBoundingClientRect(); return r && [r.left, r.top, r.right]; })(document.querySelector(%r))"
    grid, card = browser.evaluate(box % ".grid"), browser.evaluate(box % ".card.chosen")
    if not grid:
        return
    assert max(grid[1], card[1]) < 500, ("the grid and a card are on the first screen", grid, card)
    room = browser.evaluate("document.querySelector('.beside').clientWidth")
    assert card[0] >= grid[2] or grid[2] > room / 2, ("side by side, where there is room", grid, card)
    assert browser.evaluate("!document.querySelector('details.caveats[open]')"), "caveats are folded"


CHOSEN = "document.querySelector('.card.chosen').id"


def heads(browser):
    cells = browser.evaluate("[...document.querySelectorAll('.grid a')].map((cell) => cell.hash.slice(1))")
    if not cells:
        return
    across = browser.evaluate("document.querySelectorAll('.grid thead th').length")
    first = browser.evaluate("document.querySelector('#cards').dataset.first")
    assert browser.evaluate(CHOSEN) == first
    shown = "[...document.querySelectorAll('.card')].filter((card) => card.offsetParent).length"
    assert browser.evaluate(shown) == 1, "one card at a time"
    other = cells[1] if first != cells[1] else cells[0]
    browser.pointer(f".grid a[href='#{other}']")
    assert browser.evaluate(CHOSEN) == other, "hovering shows a card"
    browser.pointer("h1")
    assert browser.evaluate(CHOSEN) == first, "and leaving brings the chosen one back"
    browser.pointer(f".grid a[href='#{cells[2]}']", click=True)
    browser.pointer("h1")
    assert browser.evaluate(CHOSEN) == cells[2], "a click chooses"
    browser.key("ArrowDown")
    assert browser.evaluate(CHOSEN) == cells[2 + across], "arrows go through the grid"
    browser.key("ArrowRight")
    browser.key("Enter", text="\r")
    assert browser.evaluate("document.activeElement.hash") == f"#{cells[3 + across]}"
    assert browser.evaluate("document.querySelector('.grid a[aria-current]').hash") == f"#{cells[3 + across]}"
    other = "document.querySelector('.card.chosen .near a')"
    if browser.evaluate(f"Boolean({other})"):
        linked = browser.evaluate(f"{other}.hash")
        browser.evaluate(f"new Promise((done) => {{ addEventListener('hashchange', done, {{once: true}}); {other}.click(); }})")
        browser.pointer("h1")
        assert "#" + browser.evaluate(CHOSEN) == linked, "a link to another head opens its card"
    browser.evaluate("document.querySelector('#all').click()")
    assert browser.evaluate(shown) == len(cells), "all cards"
    drawn = "document.querySelectorAll('details.drawn').length"
    if browser.evaluate(drawn):
        browser.pointer("details.drawn summary", click=True)
        assert browser.evaluate("document.querySelector('details.drawn').open"), "a click opens the sentences of a head"
        assert browser.evaluate("document.querySelector('details.drawn svg').getBoundingClientRect().width") > 100
    browser.evaluate(
        "(() => { const s = document.querySelector('#family'); s.selectedIndex = 1;"
        " s.dispatchEvent(new Event('change')); })()"
    )
    off = browser.evaluate("document.querySelectorAll('.grid a.off').length")
    assert browser.evaluate(shown) == len(cells) - off > 0, "only heads with a label of the family"
    assert not browser.evaluate("document.querySelectorAll('details.metrics[open]').length"), "metrics are closed"
    browser.evaluate("document.querySelectorAll('.chosen details.metrics').forEach((group) => { group.open = true; })")
    rows = browser.evaluate("new Promise((done) => setTimeout(() => done(document.querySelectorAll('.chosen details.metrics tr').length), 100))")
    assert rows == browser.evaluate("document.querySelectorAll('details.metric table.map').length"), "all metrics of a head"


def playing(browser):
    """The sentence to play with: by the keyboard alone, one token's lines, words or tokens, with and without special tokens."""
    if not browser.evaluate("document.querySelectorAll('.play').length"):
        return
    at = "document.querySelector('.play')"
    lines = f"{at}.querySelectorAll('.lines path').length"
    told = f"{at}.querySelector('.key-line').textContent"
    texts = f"[...{at}.querySelectorAll('.side')[0].children].map((button) => button.textContent)"
    tokens = browser.evaluate("JSON.parse(document.querySelector('.thumbnails').dataset.tokens)")
    every = browser.evaluate(lines)
    assert every > 0, "lines of all tokens"
    browser.evaluate(f"{at}.querySelector('.side button').focus()")
    browser.key("ArrowDown")
    second = browser.evaluate(texts)[1]
    assert browser.evaluate("document.activeElement.textContent") == second, "arrows go through the tokens"
    assert 0 < browser.evaluate(lines) < every, "lines of one token"
    assert f": {second} attends to " in browser.evaluate(told), browser.evaluate(told)
    browser.key("ArrowRight")
    assert f": {second} is attended to by " in browser.evaluate(told), browser.evaluate(told)
    browser.key("ArrowLeft")
    browser.key("Enter", text="\r")
    browser.evaluate("document.activeElement.blur()")
    assert 0 < browser.evaluate(lines) < every, "what was chosen stays"
    assert browser.evaluate(f"{at}.querySelectorAll('[aria-pressed=true]').length") == 1
    browser.evaluate(f"{at}.querySelector('[aria-pressed=true]').focus()")
    browser.key("Escape")
    browser.evaluate("document.activeElement.blur()")
    assert browser.evaluate(lines) == every, "Escape lets go"
    boxes = f"[...{at}.querySelectorAll('input')].filter((box) => !box.parentElement.hidden)"
    names = browser.evaluate(f"{boxes}.map((box) => box.parentElement.textContent.trim())")
    assert names[:2] == ["words", "hide special tokens"], names
    browser.evaluate(f"{boxes}[0].click()")
    assert browser.evaluate(texts) == tokens, "token by token"
    browser.evaluate(f"{boxes}[1].click()")
    assert 0 < len(browser.evaluate(texts)) < len(tokens), "without special tokens"
    dashed = f"{at}.querySelectorAll('[stroke-dasharray]').length"
    assert (browser.evaluate(dashed) > 0) == ("tree" in names), names
    heads = browser.evaluate(f"[...{at}.querySelectorAll('option')].map((option) => option.value)")
    browser.evaluate(f"(() => {{ const s = {at}.querySelector('select'); s.selectedIndex = s.length - 1; s.dispatchEvent(new Event('change')); }})()")
    assert browser.evaluate(told).startswith(heads[-1]), "another head"
    if browser.evaluate("document.querySelectorAll('.grid a').length"):
        assert browser.evaluate(CHOSEN) == heads[-1], "whose card is shown, with the sentence"
        assert browser.evaluate(f"Boolean({at}.closest('.card.chosen'))")
    print(f"a sentence to play with, {len(tokens)} tokens, {len(heads)} heads: by keys alone")


def glance(browser):
    """Thumbnails of all heads: the tokens under the pointer are told, the head stands large, and a click opens its card."""
    thumbnails = "[...document.querySelectorAll('.thumbs a')].map((link) => link.hash.slice(1))"
    names = browser.evaluate(thumbnails)
    if not names:
        return
    cards = browser.evaluate("[...document.querySelectorAll('.grid a')].map((cell) => cell.hash.slice(1))")
    assert not cards or names[: len(cards)] == cards, "a thumbnail for each head"
    drawn = "((canvas) => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((byte) => byte))"
    assert browser.evaluate(f"[...document.querySelectorAll('.thumbs canvas')].every({drawn})"), "every head attends to something"
    browser.pointer(f".thumbs a[href='#{names[-1]}'] canvas")
    told = browser.evaluate("[...document.querySelectorAll('.large .key-line')].at(-1).textContent")
    assert told.startswith(f"{names[-1]}: from ") and " to " in told, told
    large = browser.evaluate("[...document.querySelectorAll('.large b')].at(-1).textContent")
    assert large.startswith(names[-1]), "the head under the pointer stands large"
    tokens = browser.evaluate("JSON.parse(document.querySelector('.thumbnails').dataset.tokens)")
    for axis in ["from", "to"]:
        on_axis = browser.evaluate(f"[...document.querySelector('.{axis}').children].map((token) => token.textContent)")
        assert on_axis == tokens, (axis, on_axis)
    if cards:
        browser.pointer(f".thumbs a[href='#{names[1]}']", click=True)
        assert browser.evaluate(CHOSEN) == names[1], "a click opens the card of the head"
    print(f"{len(names)} thumbnails of attention, each with its head")


def tables(browser):
    """Sorts the first table with a column of numbers by that; where a row has none it stays at the end."""
    numbers = (
        "[...document.querySelectorAll('table.sort')].flatMap((table) => [...table.tHead.rows[0].cells].map((head) =>"
        " ({head, cells: [...table.tBodies[0].rows].map((row) => row.cells[head.cellIndex].textContent.trim())})))"
        ".find(({cells}) => cells.some((text) => text) && cells.every((text) => !text || !isNaN(parseFloat(text))))"
    )
    if not browser.evaluate(f"Boolean({numbers})"):
        return
    for reverse in [True, False]:
        browser.evaluate(f"{numbers}.head.querySelector('button').click()")
        cells = browser.evaluate(f"{numbers}.cells.map((text) => text ? parseFloat(text) : null)")
        found = [number for number in cells if number is not None]
        assert cells == sorted(found, reverse=reverse) + [None] * (len(cells) - len(found)), cells


def metrics(browser):
    if not browser.evaluate("document.querySelectorAll('details.metric').length"):
        return
    title = "document.querySelector('#map caption').textContent"
    first = browser.evaluate(title)
    browser.evaluate(
        "(() => { const s = document.querySelector('#metric'); s.selectedIndex = s.length - 1;"
        " s.dispatchEvent(new Event('change')); })()"
    )
    assert browser.evaluate(title) != first, "a metric is chosen"
    assert browser.evaluate("document.querySelectorAll('#map td[class^=c]').length") > 0, "and coloured"


def names(browser):
    """Everything that can be used has a name for those who do not see it."""
    nodes = browser("Accessibility.getFullAXTree")["nodes"]
    used = [node for node in nodes if not node["ignored"] and node["role"]["value"] in ("link", "button", "combobox", "checkbox", "img")]
    nameless = [node for node in used if not node.get("name", {}).get("value", "").strip()]
    assert used and not nameless, nameless[:5]
    print(f"{len(used)} links, controls and figures, each with a name")


def without_scripts(browser, address):
    browser("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(address)
    hidden = browser.evaluate("[...document.querySelectorAll('.card')].filter((card) => !card.offsetParent).length")
    assert hidden == 0, "without scripts every card is there"
    tools = browser.evaluate("[...document.querySelectorAll('.tools')].filter((tool) => tool.offsetParent).length")
    assert tools == 0, "and no control that would do nothing"
    browser("Emulation.setScriptExecutionDisabled", value=False)


# The window of a small laptop, and so many colours that letters are smooth; a palette makes the file a third as large.
WINDOW = (1280, 800)
COLOURS = 64


def picture(browser, address, file):
    """The first screen of a page."""
    from PIL import Image

    browser("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    browser("Emulation.setDeviceMetricsOverride", width=WINDOW[0], height=WINDOW[1], deviceScaleFactor=1, mobile=False)
    browser.open(address)
    shot = Image.open(io.BytesIO(base64.b64decode(browser("Page.captureScreenshot")["data"]))).convert("RGB")
    shot.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)


def figure(browser, address):
    """A figure alone has all of its texts in it."""
    browser.open(address)
    assert browser.complaints() == [], browser.complaints()
    assert browser.evaluate("document.querySelectorAll('text').length") > 0, "a figure without a text"
    audit = browser.evaluate(f"({AUDIT})()")
    assert audit["cut"] == [], (address, audit["cut"][:10])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program", metavar="CHROMIUM")
    parser.add_argument("pages", metavar="PAGE.html|FIGURE.svg", nargs="+")
    parser.add_argument("--screenshots", metavar="FOLDER")
    parser.add_argument("--blessed", metavar="FOLDER")
    parser.add_argument("--bless", action="store_true")
    parser.add_argument("--picture", metavar="FILE.png")
    options = parser.parse_args()
    # Processes of an ended browser may still write to its profile while the folder is being removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(options.program, profile)
        try:
            for page in options.pages:
                address = pathlib.Path(page).resolve().as_uri()
                if options.picture:
                    picture(browser, address, options.picture)
                    continue
                if page.endswith(".svg"):
                    figure(browser, address)
                    print(f"{page}: no text is cut")
                    continue
                themes_and_widths(browser, address, options.screenshots, options.blessed, options.bless)
                heads(browser)
                browser.open(address)
                playing(browser)
                glance(browser)
                tables(browser)
                metrics(browser)
                names(browser)
                assert browser.complaints() == [], browser.complaints()
                without_scripts(browser, address)
                print(f"{page}: hover, click, keyboard, filter, sorting and heat maps work; without scripts all is there")
        finally:
            browser.close()


if __name__ == "__main__":
    main()
