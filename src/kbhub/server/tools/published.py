"""Result schemas of tools whose result is not a pydantic model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, RootModel, create_model

if TYPE_CHECKING:
    from pydantic import BaseModel, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

    from kbhub.values import Value


class _Whole(RootModel[Any]):
    model_config = ConfigDict(defer_build=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        # Clients expect an object with properties at the top level, not a reference.
        return dict(handler.resolve_ref_schema(handler(schema)))


def model_of(value: type[Value]) -> type[BaseModel]:
    """Return a pydantic model for a value type, as the SDK requires for results."""
    return create_model(value.__name__, __base__=_Whole, __doc__=value.__doc__, root=value)
