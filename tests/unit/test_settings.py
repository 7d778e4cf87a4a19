"""Reading the settings: precedence, types, and one clear line for every mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarmnode.config.settings import Settings, SettingsError, describe, load_settings


def test_later_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "swarm.toml"
    file.write_text("[training]\nlearning_rate = 0.1\nclip_low = 0.1\ninner_steps = 2\n")
    settings = load_settings(
        file=file,
        environment={"SWARMNODE_TRAINING__CLIP_LOW": "0.15", "SWARMNODE_HOME": "/x", "HOME": "/y"},
        assignments=["training.inner_steps=3", 'tasks.names=["bf", "arc_1d"]'],
        flags={"training.inner_steps": 4},
    )
    assert settings.training.learning_rate == 0.1
    assert settings.training.clip_low == 0.15
    assert settings.training.inner_steps == 4
    assert settings.tasks.names == ("bf", "arc_1d")
    assert settings.training.clip_high == Settings().training.clip_high


@pytest.mark.parametrize(
    ("assignment", "line"),
    [
        ("training.learning_rte=1", r"training.learning_rte .* did you mean training.learning_rat"),
        ("trainig.learning_rate=1", r"is no setting; did you mean training.learning_rate"),
        ("simulation.nodes=0", r"simulation.nodes = 0 \(from --set\): input should be greater"),
        ("training.clip_low=much", r"training.clip_low = 'much' .* valid number"),
        ("training", r"write it as --set section.name=value"),
        ("training.clip_low.deep=1", r"training.clip_low"),
        ('rounds.share="some"', r"rounds.share .* 'all', 'live' or 'none'"),
        (
            'pretraining.domains=[{name="a"}]',
            r"^pretraining.domains.0.path \(from --set\) is missing; give it a value$",
        ),
    ],
)
def test_a_mistake_is_named_in_one_line(assignment: str, line: str) -> None:
    with pytest.raises(SettingsError, match=line) as caught:
        load_settings(assignments=[assignment])
    assert "\n" not in str(caught.value)


def test_a_setting_below_a_setting_is_refused() -> None:
    with pytest.raises(SettingsError, match="clip_low is a setting, not a section"):
        load_settings(assignments=["training.clip_low=0.1", "training.clip_low.deep=1"])


def test_a_broken_or_absent_file_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("[training\n")
    with pytest.raises(SettingsError, match=r"broken.toml is not valid TOML"):
        load_settings(file=broken)
    with pytest.raises(SettingsError, match=r"absent.toml cannot be read"):
        load_settings(file=tmp_path / "absent.toml")


def test_a_typo_in_a_file_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "swarm.toml"
    file.write_text("[simulation]\nnoodles = 4\n")
    with pytest.raises(SettingsError, match=r"simulation.noodles \(from .*swarm.toml\)"):
        load_settings(file=file)


def test_every_setting_is_documented() -> None:
    undocumented = [name for name, _, text in describe(Settings) if len(text) < 10]
    assert undocumented == []


@pytest.mark.parametrize(
    ("assignment", "line"),
    [
        ('tasks.names=["bf", "bf"]', r"tasks.names \(from --set\): name each task once; .*: bf$"),
        ("tasks.names=bf", r'write a list, such as \["a", "b"\]'),
        ("policy=3", r"policy \(from --set\) is a section; set policy.something"),
        ("policy.remote_generators=1", r"remote_generators needs policy\.generators_address"),
        (
            'rewards.channels.models=[{name="length", model="a/b"}]',
            "two channels are called length; give each a name of its own",
        ),
    ],
)
def test_a_mistake_of_form_says_what_to_write(assignment: str, line: str) -> None:
    with pytest.raises(SettingsError, match=line):
        load_settings(assignments=[assignment])


def test_an_earlier_runs_settings_stand_in_for_the_defaults(tmp_path: Path) -> None:
    earlier = {
        "policy": {"temperature": 0.5, "max_new_tokens": 7, "ceased": {"to": "be"}},
        "gone": {"entirely": 1},
    }
    file = tmp_path / "settings.toml"
    file.write_text("[policy]\nmax_new_tokens = 9\n")
    settings = load_settings(earlier=earlier, file=file)
    assert (settings.policy.temperature, settings.policy.max_new_tokens) == (0.5, 9)
    whole = load_settings(assignments=["training.learning_rate=0.5"])
    assert load_settings(earlier=whole.model_dump(mode="json")) == whole
