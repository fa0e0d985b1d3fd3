"""The coverage of scenarios counts what is there, and only that."""

from pathlib import Path

from tools.ids import TESTS, failures, ids_in, listed, misnamed, missing, named_tests, proven, report


def test_ids_are_read_from_the_front_of_a_name_only() -> None:
    assert ids_in("test_a01_a27_b03_words_about_c04") == ["a01", "a27", "b03"]
    assert ids_in("test_rh1_c25_h13_what") == ["c25", "h13"]
    assert ids_in("test_w22_e06_many") == ["w22", "e06"]
    assert ids_in("test_wm8_m01_w37a_what") == ["wm8", "m01", "w37a"]
    assert ids_in("test_nothing") == []
    assert ids_in("test_a1_short") == []


def test_every_id_in_a_name_is_that_of_a_scenario(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("def test_a99_never() -> None: ...\nclass T:\n    def test_b01_in(self): ...\n")
    assert sorted(proven(named_tests(tmp_path))) == ["a99", "b01"]
    assert sorted(set(proven(named_tests(TESTS))) - set(listed())) == []


def test_a_failure_without_a_test_and_without_a_reason_is_missing() -> None:
    found = proven([(Path("test_x.py"), "test_w22_a_test"), (Path("test_x.py"), "test_m01_another")])
    assert missing(found, ["w22", "w23a", "m01"]) == ["w23a"]
    assert "missing: " in "".join(report(found))


def test_every_failure_that_was_seen_has_a_test_or_a_reason() -> None:
    assert missing(proven(named_tests(TESTS)), failures()) == []


def test_a_name_with_what_is_nearly_an_id_is_found() -> None:
    good = ["test_w02_wm7_what", "test_rh1_c25_what", "test_500_leases", "test_a_name", "test_map_of_w2"]
    bad = ["test_w2_wm7_what", "test_w02_m3_what", "test_w30abc_what", "test_a1_short"]
    file = Path("test_x.py")
    assert misnamed([(file, name) for name in (*good, *bad)]) == [f"test_x.py::{name}" for name in bad]
    assert misnamed(named_tests(TESTS)) == []
