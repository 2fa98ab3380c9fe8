"""One bar for a whole job: its steps, the time that is left, and the plans of fits and pages."""

import numpy as np
import pytest
from rich.console import Console

import heatsketch as hs
from heatsketch._utils import progress
from heatsketch._utils.progress import Job, say, shown, task, track
from heatsketch.kernel.cost import page_steps
from heatsketch.report.contents import gather


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def job(clock):
    job = Job(clock)
    job.plan([("search", 10.0), ("scale", 5.0), ("multiply", 25.0)])
    return job


class TestJob:
    def test_time_left_is_that_of_the_plan_on_a_machine_as_predicted(self, job, clock):
        job.begin("search")
        assert job.left == pytest.approx(40)
        clock.now = 5
        job.advance(1, 2)
        assert job.share == pytest.approx(5 / 40)
        assert job.left == pytest.approx(35)
        assert str(job) == "step 1 of 3, 35 s left: search"

    def test_time_left_follows_the_speed_of_the_machine(self, job, clock):
        job.begin("search")
        clock.now = 1000  # a hundred times slower than predicted
        job.end()
        job.begin("scale")
        assert 0.5 < job.left / (30 * 100) < 1

    def test_steps_may_be_left_out_and_unplanned_tasks_are_no_steps(self, job):
        job.begin("search")
        job.end()
        job.begin("multiply")
        share = job.share
        assert share == pytest.approx(15 / 40)
        assert str(job).startswith("step 3 of 3")
        job.begin("surprise")
        assert str(job).endswith("surprise")
        assert str(job).startswith("step 3 of 3")

    def test_bar_never_goes_back(self, job, clock):
        job.begin("search")
        shares = []
        for clock.now, done in ((2, 0), (9, 0), (12, 0.1), (20, 0.2), (30, 1)):
            if done:
                job.advance(done, 1)
            shares.append(job.share)
        job.end()
        job.begin("scale")
        shares.append(job.share)
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(10 / 40)

    def test_first_plan_holds_and_what_is_later_follows_it(self, clock):
        job = Job(clock)
        job.begin("read")
        job.end()
        job.plan([], later=[("draw", 1.0)])
        job.plan([("fit", 2.0)])
        job.plan([("nothing", 9.0)])
        job.begin("fit")
        assert str(job) == "step 2 of 3, 3.0 s left: fit"
        job.begin("draw")
        assert job.share == pytest.approx(2 / 3)

    def test_without_a_plan_there_is_no_time_left(self, clock):
        job = Job(clock)
        job.begin("place")
        job.advance(1, 4)
        assert job.share is job.left is None
        assert str(job) == "place, 25%"


class TestDisplay:
    def test_tasks_inside_of_tasks_are_not_shown(self, monkeypatch, capsys):
        monkeypatch.setattr(progress, "_EVERY", 0.0)
        with shown(True, [("outer", 2.0)]), task("outer") as advance:
            advance(1, 2)
            list(track(range(3), "inner", 3))
            say("a remark")
        printed = capsys.readouterr().err
        assert "outer" in printed
        assert "a remark" in printed
        assert "inner" not in printed

    def test_nothing_is_shown_unless_asked(self, capsys):
        with shown(False), task("work") as advance:
            advance(1, 2)
            say("a remark")
        assert capsys.readouterr() == ("", "")

    def test_terminal_has_one_bar(self, monkeypatch):
        monkeypatch.setattr("rich.console.Console", lambda stderr: Console(force_terminal=True, width=120, record=True))
        with shown(True, [("work", 1.0)]), task("work"):
            bar = progress._display.get()
            bar._console.print(bar.drawn())
        assert "work" in bar._console.export_text()


class Names:
    """A display that keeps the names of the steps that were planned, and of those that were begun."""

    def __init__(self):
        self.job, self.begun, self.planned = self, [], []

    def plan(self, steps, later=()):
        self.planned = self.planned or [name for name, _ in (*steps, *later)]

    def task(self, name):
        self.begun.append(name)
        return progress._Display().task(name)

    def say(self, text):
        pass


@pytest.fixture
def names():
    display = Names()
    token = progress._display.set(display)
    yield display
    progress._display.reset(token)


MODELS = [
    hs.HeatSketch(2, random_state=0),
    hs.GaussianProcessEmbedding(8, power=4, random_state=0),
    hs.GaussianProcessEmbedding(8, n_exact="auto", random_state=0),
    hs.DiffusionMaps(2),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_every_step_of_a_fit_is_planned(names, model):
    X = np.random.default_rng(0).normal(size=(2500, 3))
    model.set_params(verbose=True).fit(X)
    assert names.begun
    assert set(names.begun) <= set(names.planned)


def test_every_step_of_a_page_is_planned(names):
    X = np.random.default_rng(0).normal(size=(600, 3))
    model = hs.HeatSketch(random_state=0, verbose=True).fit(X)
    names.begun.clear()
    gather(model, methods=False)
    planned = {name for name, _ in page_steps(600)}
    assert "preparing the page" in names.begun
    assert {name for name in names.begun if "page" in name or "drawing" in name} <= planned
