"""The report in a real browser: it moves, it can be used without a mouse, it fetches nothing.

With SCREENSHOTS=folder in the environment the pictures looked at by hand are left there.
"""

import base64
import json
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from septum import certify, plot
from septum.report import denoising_report

pytestmark = pytest.mark.browser

NAME = "<script>document.title='broken'</script>.nii.gz"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report of a made-up head: every tile of the viewer has its own grey, so that moving shows."""
    rng = np.random.default_rng(0)
    x, y, z = np.meshgrid(*(np.linspace(-1, 1, n) for n in (56, 64, 12)), indexing="ij")
    head = ((x / 0.85) ** 2 + (y / 0.95) ** 2 + (z / 1.2) ** 2) < 1
    folds = 1 + 0.35 * np.sin(7 * x + 3 * z) * np.cos(6 * y) + 0.5 * ((np.hypot(x, y) - 0.25) ** 2 < 0.01)
    g = rng.normal(size=(20, 3))
    g /= np.linalg.norm(g, axis=1, keepdims=True)
    b = np.repeat([0.0, 1000.0], [1, 19])
    g[0] = 0
    signal = np.exp(-1.2 * (g @ np.array([0.6, 0.3, 0.74])) ** 2 * (b > 0)) + (b == 0)
    after = 400 * (head * folds)[..., None] * signal
    before = np.abs(after + 35 * rng.normal(size=after.shape) * (0.4 + head[..., None]))
    angular, spatial = (
        d / np.linalg.norm(d, axis=0) for d in (rng.normal(size=(20, 6)), rng.normal(size=(36, 12)))
    )
    X = rng.normal(size=(15, 20, 36))
    codes = sp.coo_array(
        0.2 * np.einsum("gi,tgv,vj->tij", angular, X, spatial) * (rng.random((15, 6, 12)) < 0.3)
    )
    steps = np.geomspace(100, 3, 8)
    history = {
        "objective": 500 + steps,
        "lower_bound": np.full(8, 500.0),
        "attainment": 1 - steps / 120,
        "inner_objective": [500 + s * np.linspace(1.4, 1, 6) for s in steps],
    }
    path = tmp_path_factory.mktemp("report") / "report.html"
    denoising_report(
        path, before=before, after=after, noise=35.0 * (0.4 + head), truth=after, mask=head, affine=np.diag([2.0, 2, 2, 1]),
        bvals=b, bvecs=g, title=f"Denoised: {NAME}", summary="20 volumes of 56 × 64 × 12 voxels.",
        command=f"septum denoise '{NAME}' -o out.nii.gz", dictionaries=[angular, spatial], codes=codes, patch_shape=(6, 6),
        certificate=certify(X, [angular, spatial], codes, 1.0), history=history, alpha=1.0,
        centring="each patch's mean removed", numbers={"Voxels": int(head.sum()), "Volumes": 20, "Noise (σ)": 35.0},
        parameters={"patch": (6, 6)}, timings={"learn": 1.25}, seeds={"seed": 0},
        inputs=[{"Name": NAME, "Bytes": 1, "SHA256": "ab" * 32}], notes=["A note that the reader should not miss."],
        closeups=[("A close-up", plot.png(plot.before_after(before[..., 5, 3], after[..., 5, 3])))],
    )  # fmt: skip
    return path


@pytest.fixture
def page(browser, report):
    with browser(report) as driver:
        ready(driver)
        yield driver


def ready(driver):
    from selenium.webdriver.support.ui import WebDriverWait

    script = "return [...document.querySelectorAll('.viewer')].every(v => v.dataset.ready)"
    WebDriverWait(driver, 20).until(lambda d: d.execute_script(script))


def find(driver, selector):
    return driver.find_element("css selector", selector)


def press(driver, selector, *keys):
    find(driver, selector).send_keys(*keys)


def divider(driver):
    """Where the divider is, in percent, and where the drawn clip and handle are, in fractions of the stage."""
    return driver.execute_script(
        """const stage = document.querySelector('.stage'), box = stage.getBoundingClientRect();
        const handle = document.querySelector('.handle').getBoundingClientRect();
        const clip = getComputedStyle(document.querySelector('.before')).clipPath;
        return [Number(document.querySelector('.handle').getAttribute('aria-valuenow')),
                (handle.left + handle.width / 2 - box.left) / box.width, clip]"""
    )


def pixels(driver, layer):
    """A sum that tells one drawn slice from another."""
    return driver.execute_script(
        """const c = document.querySelector(`canvas[data-layer=${arguments[0]}]`);
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        let sum = 0; for (let i = 0; i < d.length; i++) sum = (sum * 31 + d[i]) % 1000003; return sum""",
        layer,
    )


def shot(driver, path, whole=True):
    options = {"captureBeyondViewport": whole}
    if whole:
        size = driver.execute_script(
            "const d = document.documentElement; return [d.scrollWidth, d.scrollHeight]"
        )
        options["clip"] = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
    content = base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", options)["data"])
    if path is not None:
        Path(path).write_bytes(content)
    return content


def test_nothing_is_fetched_and_nothing_is_said_on_the_console(page, report):
    press(page, ".handle", "\ue014")
    for button in page.find_elements("css selector", "button"):
        button.click()
    assert page.execute_script("return performance.getEntriesByType('resource').map(e => e.name)") == []
    asked = []
    for entry in page.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if (
            message["method"] == "Network.requestWillBeSent"
            and message["params"]["documentURL"] == report.as_uri()
        ):
            asked.append(message["params"]["request"]["url"])
    assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
    assert page.get_log("browser") == []
    assert page.title.startswith("Denoised: <script>")


def test_the_divider_follows_the_pointer(page):
    from selenium.webdriver.common.action_chains import ActionChains

    before, at, first = divider(page)
    assert (before, round(at, 2)) == (50, 0.5)
    picture = find(page, ".stage").screenshot_as_png
    stage = find(page, ".stage")
    width = stage.size["width"]
    ActionChains(page).move_to_element(stage).click_and_hold().move_by_offset(
        int(0.25 * width), 0
    ).release().perform()
    now, at, clip = divider(page)
    assert 73 <= now <= 77
    assert at == pytest.approx(now / 100, abs=0.01)
    assert clip != first
    assert find(page, ".stage").screenshot_as_png != picture
    # Once let go, the pointer moves nothing.
    ActionChains(page).move_by_offset(-80, 0).perform()
    assert divider(page)[0] == now


def test_the_divider_follows_the_keys(page):
    left, right, up, down = "\ue012", "\ue014", "\ue013", "\ue015"
    page_up, page_down, end, home = "\ue00e", "\ue00f", "\ue010", "\ue011"
    expected = [
        (right, 52),
        (up, 54),
        (left, 52),
        (down, 50),
        (page_up, 60),
        (page_down, 50),
        (end, 100),
        (right, 100),
        (home, 0),
        (left, 0),
    ]
    for key, value in expected:
        press(page, ".handle", key)
        assert divider(page)[0] == value
    assert find(page, ".handle").get_attribute("aria-valuetext") == "0% before"
    for name, value in (("before", 100), ("both", 50), ("after", 0)):
        button = next(b for b in page.find_elements("css selector", ".choose button") if b.text == name)
        button.click()
        assert divider(page)[0] == value
        assert button.get_attribute("aria-pressed") == "true"


def test_slices_and_volumes_change_with_the_keys(page):
    layers = ("before", "after", "residual", "noise")
    first = {name: pixels(page, name) for name in layers}
    press(page, "input.volume", "\ue014")
    second = {name: pixels(page, name) for name in layers}
    assert all(first[name] != second[name] for name in layers[:3])
    assert first["noise"] == second["noise"]  # one map for all volumes
    assert find(page, ".volume-name").text == find(page, "input.volume").get_attribute("aria-valuetext")
    assert "b = 1000" in find(page, ".volume-name").text
    press(page, "input.slice", "\ue012")
    third = {name: pixels(page, name) for name in layers}
    assert all(second[name] != third[name] for name in layers)
    assert find(page, ".slice-name").text.startswith("Slice ")
    press(page, "input.slice", "\ue014")
    press(page, "input.volume", "\ue012")
    assert {name: pixels(page, name) for name in layers} == first


def test_a_dot_of_the_compass_chooses_its_direction(page):
    dots = page.find_elements("css selector", ".dot.shown")
    dots[-1].click()
    assert find(page, "input.volume").get_property("value") == dots[-1].get_attribute("data-at")
    assert len(page.find_elements("css selector", ".dot.now")) == 1


def test_everything_can_be_reached_with_the_keyboard(page):
    script = """const all = [...document.querySelectorAll('a, button, input:not([disabled]), [tabindex="0"]')];
        return all.filter(e => e.checkVisibility()).length"""
    wanted = page.execute_script(script)
    seen = set()
    for _ in range(wanted + 3):
        page.switch_to.active_element.send_keys("\ue004")
        seen.add(page.switch_to.active_element.id)
    assert len(seen) >= wanted
    assert page.execute_script("return document.querySelector('.handle').matches('[tabindex]')")


def test_tables_and_the_command_are_copied(page):
    # The clipboard of a page from disk: what the page hands to it is caught here.
    page.execute_script(
        "window.caught = []; navigator.clipboard.writeText = async (text) => { window.caught.push(text); };"
    )
    buttons = page.find_elements("css selector", "button.copy")
    for button in buttons:
        button.click()
    texts = page.execute_script("return window.caught")
    assert len(texts) == len(buttons)
    lines = next(t for t in texts if t.startswith("Shell\t")).splitlines()
    assert [line.count("\t") for line in lines] == [7, 7, 7]
    assert lines[1].startswith("b = 0\t1\t")
    assert float(lines[2].split("\t")[2]) > 0
    assert f"septum denoise '{NAME}' -o out.nii.gz" in texts


def test_copying_without_the_clipboard_interface(page):
    page.execute_script(
        """window.caught = null;
        navigator.clipboard.writeText = () => Promise.reject(new Error('refused'));
        document.execCommand = () => { window.caught = document.activeElement.value; return true; };"""
    )
    button = find(page, ".command button.copy")
    button.click()
    assert page.execute_script("return window.caught").startswith("septum denoise")
    assert button.text == "Copied"


def test_light_and_dark(browser, report):
    ground = "return getComputedStyle(document.body).backgroundColor"
    with browser(report, colours="light") as driver:
        light = driver.execute_script(ground)
        find(driver, "button.theme").click()
        dark = driver.execute_script(ground)
        assert light != dark
    with browser(report, colours="dark") as driver:
        assert driver.execute_script(ground) == dark
        find(driver, "button.theme").click()
        assert driver.execute_script(ground) == light


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_hangs_over_the_edge_and_words_can_be_read(browser, report, width, colours):
    with browser(report, width=width, height=900, colours=colours) as driver:
        ready(driver)
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        assert driver.execute_script(_CONTRAST) == []
        folder = os.environ.get("SCREENSHOTS")
        content = shot(driver, Path(folder) / f"report_{width}_{colours}.png" if folder else None)
        assert content.startswith(b"\x89PNG")


def test_print_shows_both_pictures_and_no_buttons(browser, report):
    with browser(report, width=760, colours="dark", media="print") as driver:
        ready(driver)
        boxes = driver.execute_script(
            """return ['.before', '.after'].map(s => { const b = document.querySelector(s).getBoundingClientRect();
            return [b.left, b.right, b.width]; })"""
        )
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 760
        assert boxes[0][1] <= boxes[1][0]
        assert boxes[0][2] == pytest.approx(boxes[1][2], abs=2)
        assert not any(b.is_displayed() for b in driver.find_elements("css selector", "button, input"))
        ground = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(255, 255, 255)"
        folder = os.environ.get("SCREENSHOTS")
        shot(driver, Path(folder) / "report_print.png" if folder else None)
        pdf = driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
        assert base64.b64decode(pdf).startswith(b"%PDF")


# Every piece of text against the ground behind it: at least 4.5 to 1, or 3 to 1 when large (WCAG 2, AA).
_CONTRAST = """
const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return [m[0], m[1], m[2], m.length > 3 ? m[3] : 1]; };
const linear = (v) => v <= 0.04045 * 255 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
const ground = (e) => {
  for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c[3] > 0.5) return c;
  }
  return [255, 255, 255, 1];
};
const poor = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walk.nextNode(); node; node = walk.nextNode()) {
  const e = node.parentElement;
  if (!node.data.trim() || !e.checkVisibility() || e.closest('script, noscript, .spoken, .stage, .skip')) continue;
  const style = getComputedStyle(e), inSvg = e.namespaceURI.endsWith('svg');
  const front = parse(inSvg ? style.fill : style.color), back = ground(e);
  const [a, b] = [light(front), light(back)].sort((p, q) => q - p);
  const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.6 && Number(style.fontWeight) >= 700);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < (large ? 3 : 4.5)) poor.push([node.data.trim().slice(0, 30), style.color, ratio.toFixed(2)]);
}
return poor;
"""
