"""gRPC messages and services from compact tables, built at run time.

The protocols of the node are small and frozen; a table per protocol (field numbers are the protocol) replaces generated
code. A field is `name:number[:type]`: the type defaults to string, `[]T` repeats, `?T` is optional (has presence), `{K=V}` is a map.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

__all__ = ["Method", "Protocol", "Service", "build"]

Message = Any  # a protobuf message class or instance: its attributes exist only at run time

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "uint32": _Field.TYPE_UINT32,
    "uint64": _Field.TYPE_UINT64,
    "double": _Field.TYPE_DOUBLE,
}


@dataclass(frozen=True)
class Method:
    name: str
    request: type[Message]
    response: type[Message]
    server_stream: bool = False


@dataclass(frozen=True)
class Service:
    """One gRPC service: makes client stubs and server handlers."""

    full_name: str
    methods: Mapping[str, Method]

    def path(self, method: str) -> str:
        return f"/{self.full_name}/{method}"

    def stub(self, channel: grpc.aio.Channel, method: str) -> Callable[..., Any]:
        m = self.methods[method]
        make = channel.unary_stream if m.server_stream else channel.unary_unary
        stub: Callable[..., Any] = make(
            self.path(method),
            request_serializer=m.request.SerializeToString,
            response_deserializer=m.response.FromString,
        )
        return stub

    def handler(self, implementation: Mapping[str, Callable[..., Any]]) -> grpc.GenericRpcHandler:
        """Handlers for the methods that `implementation` names; the others answer UNIMPLEMENTED."""
        handlers = {}
        for name, function in implementation.items():
            m = self.methods[name]
            make = grpc.unary_stream_rpc_method_handler if m.server_stream else grpc.unary_unary_rpc_method_handler
            handlers[name] = make(
                function, request_deserializer=m.request.FromString, response_serializer=m.response.SerializeToString
            )
        return grpc.method_handlers_generic_handler(self.full_name, handlers)


@dataclass(frozen=True)
class Protocol:
    """Message classes by name, services by name."""

    messages: Mapping[str, type[Message]]
    services: Mapping[str, Service]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.messages[name]
        except KeyError:
            raise AttributeError(name) from None


def build(
    package: str,
    messages: Mapping[str, str],
    *,
    services: Mapping[str, Mapping[str, str]],
    enums: Mapping[str, str] | None = None,
) -> Protocol:
    """`services`: {"Name": {"Method": "Request Response" | "Request stream Response"}}; `enums`: {"Name": "A B C"} numbered from 0."""
    enums = enums or {}
    file = descriptor_pb2.FileDescriptorProto(name=f"drakit/{package}.proto", package=package, syntax="proto3")
    for name, values in enums.items():
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values.split()):
            enum.value.add(name=value, number=number)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field in fields.split():
            _add_field(message, package, enums, field)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    classes = {n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{n}")) for n in messages}
    return Protocol(classes, {name: _service(package, name, methods, classes) for name, methods in services.items()})


def _service(package: str, name: str, methods: Mapping[str, str], classes: Mapping[str, type[Message]]) -> Service:
    parsed = {}
    for method, signature in methods.items():
        words = signature.split()
        parsed[method] = Method(method, classes[words[0]], classes[words[-1]], server_stream=words[1] == "stream")
    return Service(f"{package}.{name}", parsed)


def _add_field(message: descriptor_pb2.DescriptorProto, package: str, enums: Mapping[str, str], text: str) -> None:
    name, number, *rest = text.split(":")
    kind = rest[0] if rest else "string"
    field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
    if kind.startswith("{"):
        key, value = kind[1:-1].split("=")
        entry = message.nested_type.add(name=_camel(name) + "Entry")
        entry.options.map_entry = True
        for i, (part, part_kind) in enumerate((("key", key), ("value", value)), start=1):
            _set_type(entry.field.add(name=part, number=i, label=_Field.LABEL_OPTIONAL), package, enums, part_kind)
        field.label, field.type = _Field.LABEL_REPEATED, _Field.TYPE_MESSAGE
        field.type_name = f".{package}.{message.name}.{entry.name}"
        return
    if kind.startswith("[]"):
        field.label, kind = _Field.LABEL_REPEATED, kind[2:]
    elif kind.startswith("?"):
        kind = kind[1:]
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name="_" + name)
    _set_type(field, package, enums, kind)


def _set_type(field: descriptor_pb2.FieldDescriptorProto, package: str, enums: Mapping[str, str], kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
        return
    field.type = _Field.TYPE_ENUM if kind in enums else _Field.TYPE_MESSAGE
    field.type_name = f".{package}.{kind}"


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
