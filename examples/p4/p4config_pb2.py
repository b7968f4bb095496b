"""`P4DeviceConfig` of PI's p4/tmp/p4config.proto, in which the controllers of the P4 tutorials wrap the program's JSON. PyPI's p4runtime lacks it."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_file = descriptor_pb2.FileDescriptorProto(name="p4/tmp/p4config.proto", package="p4.tmp", syntax="proto3")
_message = _file.message_type.add(name="P4DeviceConfig")
_message.field.add(name="reassign", number=1, type="TYPE_BOOL", label="LABEL_OPTIONAL")
_message.field.add(name="device_data", number=3, type="TYPE_BYTES", label="LABEL_OPTIONAL")
_pool = descriptor_pool.Default()
_pool.Add(_file)
_found = _pool.FindMessageTypeByName("p4.tmp.P4DeviceConfig")
if hasattr(message_factory, "GetMessageClass"):
    P4DeviceConfig = message_factory.GetMessageClass(_found)
else:
    P4DeviceConfig = message_factory.MessageFactory(_pool).GetPrototype(_found)
