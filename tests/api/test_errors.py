from __future__ import annotations

import pytest

from drakit.api.errors import FieldError, StatusError, go_quote


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FieldError.required("spec.x"), "spec.x: Required value"),
        (FieldError.required("spec.x", "say it"), "spec.x: Required value: say it"),
        (FieldError.invalid("spec.x", 'a"b\n', "no"), 'spec.x: Invalid value: "a\\"b\\n": no'),
        (FieldError.invalid("spec.x", 5, "no"), "spec.x: Invalid value: 5: no"),
        (FieldError.invalid("spec.x", True, "no"), "spec.x: Invalid value: true: no"),
        (FieldError.invalid("spec.x", None, "no"), "spec.x: Invalid value: null: no"),
        (FieldError.invalid("spec.x", {"a": "<b>"}, "no"), 'spec.x: Invalid value: {"a":"\\u003cb\\u003e"}: no'),
        (FieldError.not_supported("m", "x", ("A", "B")), 'm: Unsupported value: "x": supported values: "A", "B"'),
        (FieldError.duplicate("l[1]", "x"), 'l[1]: Duplicate value: "x"'),
        (FieldError.too_many("l", 33, 32), "l: Too many: 33: must have at most 32 items"),
        (FieldError.too_long("s", 1), "s: Too long: may not be more than 1 byte"),
        (FieldError.forbidden("s", "not now"), "s: Forbidden: not now"),
    ],
)
def test_field_errors_read_as_in_kubernetes(error: FieldError, text: str) -> None:
    assert str(error) == text


def test_invalid_names_every_cause_once() -> None:
    twice = FieldError.required("spec.x")
    error = StatusError.invalid("resource.k8s.io", "ResourceClaim", "c", [twice, twice, FieldError.required("spec.y")])
    assert error.message == (
        'ResourceClaim.resource.k8s.io "c" is invalid: [spec.x: Required value, spec.y: Required value]'
    )
    assert [cause["field"] for cause in error.causes] == ["spec.x", "spec.y"]
    assert (error.code, error.reason) == (422, "Invalid")


def test_a_status_survives_the_wire() -> None:
    error = StatusError.conflict("", "pods", "p", "changed")
    again = StatusError.from_status(error.to_status())
    assert (again.code, again.reason, again.message, again.details) == (409, "Conflict", error.message, error.details)
    assert error.message == 'Operation cannot be fulfilled on pods "p": changed'


@pytest.mark.parametrize(
    ("text", "quoted"),
    [("a", '"a"'), ("\x01", '"\\x01"'), ("ü", '"ü"'), ("\u200b", '"\\u200b"'), ("\U000e0001", '"\\U000e0001"')],
)
def test_go_quote_is_percent_q(text: str, quoted: str) -> None:
    assert go_quote(text) == quoted
