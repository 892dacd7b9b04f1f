"""Numbers of fields of an ONNX file, from onnx.proto, and values of its enumerations. Pure."""

from typing import Final

# Of ModelProto and GraphProto, NodeProto, AttributeProto, TensorProto.
GRAPH: Final = 7
NODE, INITIALIZER, INPUT, OUTPUT, VALUE_INFO = 1, 5, 11, 12, 13
NODE_INPUT, NODE_OUTPUT, NODE_NAME, NODE_OP, NODE_ATTRIBUTE, NODE_DOMAIN = 1, 2, 3, 4, 5, 7
ATTRIBUTE_NAME, ATTRIBUTE_INT, ATTRIBUTE_TENSOR, ATTRIBUTE_GRAPH, ATTRIBUTE_GRAPHS = 1, 3, 5, 6, 11
ATTRIBUTE_TYPE: Final = 20
DIMS, DATA_TYPE, INT64_DATA, TENSOR_NAME, RAW_DATA, EXTERNAL_DATA, DATA_LOCATION = 1, 2, 7, 8, 9, 13, 14
# Of ValueInfoProto, TypeProto, TypeProto.Tensor, TensorShapeProto, its Dimension.
VALUE_NAME, VALUE_TYPE = 1, 2
TYPE_TENSOR, TYPE_SEQUENCE, TYPE_MAP, TYPE_SPARSE, TYPE_OPTIONAL = 1, 4, 5, 8, 9
ELEM_TYPE, SHAPE = 1, 2
DIM, DIM_VALUE, DIM_PARAM = 1, 1, 2
# Values of enumerations there: a tensor's type, where its data is, an attribute's type.
INT64, STRING, EXTERNAL, TYPE_INT = 7, 8, 1, 2
