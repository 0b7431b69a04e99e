import pickle

from hotline_analysis import errors


def test_message_and_hint() -> None:
    assert str(errors.EmptyTraceError("No events.")) == "No events."
    assert str(errors.EmptyTraceError("No events.", hint="profile a step.")) == "No events. Hint: profile a step."


def test_hint_survives_a_worker_process() -> None:
    error = errors.TraceFormatError("No trace.", hint="look.")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_every_class_is_in_the_tree() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert classes
    for cls in classes:
        assert f" {cls.__name__} " in str(errors.__doc__)
