"""`auglag watch` and the page it serves: real processes, real requests, and a real browser where there is one."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from html.parser import HTMLParser

import numpy as np
import pytest

from auglag import JsonLog
from auglag.log import LogReader
from auglag.log.page import page, snapshot, write

pytest.importorskip("typer")
from auglag.cli.live import view
from auglag.log.server import PageServer
from helpers.commands import auglag

__all__ = ["auglag"]
COMMAND = [sys.executable, "-m", "auglag.cli"]
EVIL = "</script><script>document.title='caught'</script><img src=x onerror=\"document.title='caught'\">"


def rows(log, first, last):
    """Iterations of a made-up run."""
    for k in range(first, last + 1):
        log.iteration(
            k, seconds=0.5 * k, objective=3.0 - 1.0 / k, residual=10.0**-k, violation=0.5 * 10.0**-k, beta=2.0**k,
            multipliers=[1.0 - 0.1**k, -2.0], inner_status="CONVERGED", inner_iterations=5 + k, evaluations=9,
            work={"nfev": 9 * k},
        )  # fmt: skip


def begun(path, name="made up", last=3):
    log = JsonLog(path)
    log.start(n=4, m=2, tol=1e-6, problem=name, rows=["volume", "sphere"], options={"rules": "Adaptive, Full"})
    rows(log, 1, last)
    return log


def finished(log):
    log.end(status="SOLVED", success=True, message="Solved: all is well.", seconds=4.0, residual=1e-8)


# ------------------------------------------------------------------------------------------------------- the terminal


def test_a_finished_run_is_shown_once_and_as_a_stream(auglag, tmp_path):
    path = tmp_path / "run.jsonl"
    auglag("solve", "HS71", "--variant", "adaptive-full", "--log", path, "-q")
    for options in ([], ["--once"]):
        shown = auglag("watch", path, *options).stdout
        assert "HS71: solved after" in shown
        events = [json.loads(line)["event"] for line in path.read_text().splitlines()]
        assert shown.count("converged") == events.count("iteration")
        assert shown.count("inner step") == events.count("step") > 0
        assert "Solved: the certificate meets the tolerance." in shown
    assert "step" not in auglag("watch", path, "--once", "--outer").stdout
    assert "HS71" in auglag("watch", tmp_path, "--once").stdout  # the newest log of a folder


def test_a_run_is_followed_from_before_its_file_exists_to_its_end(tmp_path):
    path = tmp_path / "run.jsonl"
    watcher = subprocess.Popen(
        [*COMMAND, "watch", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert "waiting for" in watcher.stderr.readline()
    log = begun(path, last=2)
    said = [watcher.stdout.readline() for _ in range(4)]  # name, head, two rows: before the run has ended
    assert "made up: running" in said[0]
    assert said[3].split()[0] == "2"
    rows(log, 3, 4)
    finished(log)
    rest, _ = watcher.communicate(timeout=60)
    assert watcher.returncode == 0
    assert [line.split()[0] for line in rest.splitlines()] == ["3", "4", "Solved:"]


def test_a_killed_run_is_said_to_be_gone(auglag, tmp_path):
    path = tmp_path / "run.jsonl"
    begun(path)
    path.write_text(path.read_text().replace(f'"pid":{os.getpid()}', '"pid":999999999'))
    assert "ended unexpectedly" in auglag("watch", path).stdout


def test_watch_ends_with_ctrl_c(tmp_path):
    path = tmp_path / "run.jsonl"
    heard = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\nfrom auglag.cli import main\nmain()"
    )
    begun(path)
    watcher = subprocess.Popen([sys.executable, "-c", heard, "watch", str(path)], stdout=subprocess.PIPE, text=True)
    watcher.stdout.readline()
    watcher.send_signal(signal.SIGINT)
    watcher.communicate(timeout=60)
    assert watcher.returncode == 130


@pytest.mark.parametrize(
    ("name", "words"),
    [("none.jsonl", "there is no run in"), ("no.csv", "is not a log of auglag"), ("", "has no .jsonl")],
)
def test_what_cannot_be_shown_is_said_in_a_sentence(auglag, tmp_path, name, words):
    (tmp_path / "no.csv").write_text("a,b\n1,2\n")
    done = auglag("watch", tmp_path / name, "--once", code=2)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_the_view_of_the_terminal_shows_charts_and_the_last_rows(tmp_path):
    from rich.console import Console

    path = tmp_path / "run.jsonl"
    log = begun(path, last=30)
    reader = LogReader(path)
    reader.poll()
    console = Console(width=110, record=True, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    with console.file:
        console.print(view(reader, width=110, height=45))
    text = console.export_text()
    assert "made up  running" in text
    assert any("\u2801" <= character <= "\u28ff" for character in text)
    for word in ("violation", "penalty", "|y|", "inner work", "tol", "1e-30"):
        assert word in text
    shown = [line.split()[0] for line in text.splitlines() if line.endswith("converged")]
    assert shown[-1] == "30"
    assert len(text.splitlines()) <= 45
    finished(log)


# ------------------------------------------------------------------------------------------------------------ the page


@pytest.fixture
def served(tmp_path):
    """(path, server): a page of a log that is not there yet."""
    path = tmp_path / "run.jsonl"
    with PageServer(LogReader(path)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield path, server
        server.shutdown()
        thread.join()


def get(server, target, host=None):
    connection = http.client.HTTPConnection(*server.server_address, timeout=10)
    try:
        connection.request("GET", target, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_the_server_sends_what_is_new(served):
    path, server = served
    assert json.loads(get(server, "/rows")[1])["state"] == "waiting"
    log = begun(path)
    first = json.loads(get(server, "/rows?generation=-1&iterations=0&tests=0")[1])
    assert (first["state"], len(first["iterations"])) == ("running", 3)
    rows(log, 4, 5)
    finished(log)
    place = f"generation={first['generation']}&iterations=3&tests=0"
    second = json.loads(get(server, f"/rows?{place}")[1])
    assert [row["k"] for row in second["iterations"]] == [4, 5]
    assert second["end"]["success"]
    begun(path, "another", last=1)
    third = json.loads(get(server, f"/rows?{place}")[1])
    assert third["generation"] != first["generation"]
    assert (third["start"]["problem"], len(third["iterations"]), third["end"]) == ("another", 1, None)


def test_the_server_is_for_this_machine_and_for_one_page(served):
    path, server = served
    assert server.server_address[0] == "127.0.0.1"
    assert get(server, "/", host="evil.example:80")[0] == 403
    assert get(server, "/../../etc/passwd")[0] == 404
    assert get(server, "/rows?iterations=x")[0] == 400
    assert get(server, "/rows?iterations=-5")[0] == 400
    assert get(server, "/")[0] == 200
    path.write_text("no log\n")
    status, text = get(server, "/rows")
    assert status == 200
    assert "is not a log of auglag" in json.loads(text)["words"]


def test_the_page_holds_everything_and_a_hostile_log_cannot_break_out(tmp_path):
    path = tmp_path / "run.jsonl"
    begun(path, EVIL)
    reader = LogReader(path)
    reader.poll()
    text = page(snapshot(reader), title=EVIL)
    tags = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append((tag, dict(attributes)))
    parser.feed(text)
    assert [tag for tag, _ in tags].count("script") == 2
    assert "img" not in [tag for tag, _ in tags]
    assert all("src" not in attributes and attributes.get("href", "data:,") == "data:," for _, attributes in tags)
    assert not any(mark in text for mark in ("http://", "https://", "@import", "url("))


# ----------------------------------------------------------------------------------------------------------- a browser


def chromium():
    """A browser that is installed, or a reason to skip."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("there is no chromium here")
    return sync_api.sync_playwright(), found


@pytest.fixture
def browser():
    manager, program = chromium()
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-dev-shm-usage",
    ]
    with manager as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=flags)
        yield opened
        opened.close()


def opened(browser, url, **options):
    """A page that keeps what goes wrong in it, and what it asks for."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900}, **options)
    tab.wrong, tab.asked = [], []
    tab.on("pageerror", lambda error: tab.wrong.append(str(error)))
    tab.on("console", lambda message: tab.wrong.append(message.text) if message.type == "error" else None)
    tab.on("request", lambda request: tab.asked.append(request.url))
    tab.goto(url)
    return tab


def says(tab, selector, text):
    """Wait until it does."""
    from playwright.sync_api import expect

    expect(tab.locator(selector)).to_have_text(text, timeout=30_000)


def counts(tab, number):
    """Wait until the table has so many rows."""
    from playwright.sync_api import expect

    expect(tab.locator("#iterations tbody tr")).to_have_count(number, timeout=30_000)


def test_the_page_follows_a_run_in_a_real_browser(browser, served):
    path, server = served
    tab = opened(browser, server.url)
    says(tab, "#status", "waiting")
    log = begun(path, EVIL)
    counts(tab, 3)
    assert tab.inner_text("#status") == "running"
    assert tab.inner_text("#name") == EVIL  # text stays text
    rows(log, 4, 9)
    with path.open("a") as file:
        file.write('{"event":"iteration","k":10,')  # a line that is still being written
    counts(tab, 9)
    assert tab.inner_text("#multipliers tbody tr:first-child td:first-child") == "sphere"
    labels = tab.eval_on_selector_all("svg.chart", "all => all.map((one) => one.getAttribute('aria-label'))")
    assert len(labels) == 6
    assert labels[0].startswith("Residual, last: R 1e-9")
    assert "β 512" in labels[2]
    with path.open("a") as file:
        file.write("\n")
    finished(log)
    says(tab, "#status", "solved")
    assert "Solved: all is well." in tab.inner_text("#message")
    assert "1 lines could not be read" in tab.inner_text("#facts")
    assert tab.wrong == []
    assert all(url.startswith((server.url, "data:")) for url in tab.asked)
    begun(path, "the next run", last=1)
    says(tab, "#name", "the next run")
    counts(tab, 1)


def heights(tab):
    """Where the points of the residual are drawn."""
    drawn = tab.get_attribute("#chart-residual > svg path.line", "d")
    return np.array([float(pair.split()[1]) for pair in drawn[1:].split("L")])


def test_log_axes_themes_and_the_choice_of_the_axis_work(browser, served):
    path, server = served
    begun(path, last=8)
    tab = opened(browser, server.url, color_scheme="dark")
    counts(tab, 8)
    paper = "getComputedStyle(document.body).backgroundColor"
    assert tab.evaluate(paper) == "rgb(21, 24, 29)"
    tab.click("#theme")
    tab.click("#theme")
    assert tab.inner_text("#theme") == "theme: light"
    assert tab.evaluate(paper) == "rgb(255, 255, 255)"

    steps = np.diff(heights(tab))
    assert np.allclose(steps, steps[0], atol=0.2)  # a factor of ten is one step, however small the number
    tab.uncheck("#log")
    assert np.allclose(np.diff(heights(tab))[4:], 0.0, atol=0.2)
    tab.check("#log")
    tab.select_option("#axis", "seconds")
    assert "seconds" in tab.text_content("#chart-residual > svg")
    tab.hover("#chart-residual > svg")
    assert "2 sR 1e-4" in tab.text_content("#chart-residual > svg")  # all steps, which have no stationarity
    tab.select_option("#axis", "k")
    tab.hover("#chart-residual > svg")
    assert "stationarity" in tab.text_content("#chart-residual > svg")
    assert tab.wrong == []


def test_a_page_whose_run_was_killed_says_so_and_one_without_its_server_too(browser, tmp_path):
    path = tmp_path / "run.jsonl"
    begun(path)
    path.write_text(path.read_text().replace(f'"pid":{os.getpid()}', '"pid":999999999'))
    with PageServer(LogReader(path)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        tab = opened(browser, server.url)
        says(tab, "#status", "ended unexpectedly")
        assert "killed" in tab.inner_text("#message")
        server.shutdown()
        thread.join()
    says(tab, "#status", "no connection")
    counts(tab, 3)


def test_a_report_of_a_log_is_drawn_from_a_file_alone(browser, tmp_path):
    path = tmp_path / "run.jsonl"
    finished(begun(path, last=5))
    reader = LogReader(path)
    reader.poll()
    write(tmp_path / "run.html", reader)
    tab = opened(browser, (tmp_path / "run.html").as_uri())
    counts(tab, 5)
    says(tab, "#status", "solved")
    assert tab.wrong == []
    assert [url for url in tab.asked if not url.startswith(("file:", "data:"))] == []
