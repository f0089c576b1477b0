"""The Croissant description (croissant.json) of a published folder: its files, their digests, and their plain columns.

Is: `describe(card, folder)`, a JSON-LD document of Croissant 1.0. One record set a file with rows; columns of structs
are left out, since the format cannot say how to read them from Parquet.
Reads the folder's Parquet files; writes nothing: `data.publish` stores the document.
"""

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from data.card import Card, ConfigCard, docs_of

CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The context that Croissant 1.0 prescribes."""
TYPES = {"string": "sc:Text", "large_string": "sc:Text", "int64": "sc:Integer", "double": "sc:Float",
         "bool": "sc:Boolean"}  # fmt: skip
"""Arrow type -> Croissant type."""


def describe(card: Card, folder: Path) -> dict[str, Any]:
    """The document for a folder that holds data/<config>/<split>-*.parquet."""
    files = [(config, path) for config in card.configs for path in _files(config, folder)]
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": card.name,
        "description": card.summary,
        "version": card.version,
        "license": [name for name in card.licenses if name] or ["none declared"],
        "url": "README.md",
        "distribution": [_file_object(path, folder) for _, path in files],
        "recordSet": [_record_set(config, path, folder) for config, path in files],
    }


def _files(config: ConfigCard, folder: Path) -> list[Path]:
    home = folder / "data" / config.name
    return [path for split, rows in config.rows.items() if rows for path in sorted(home.glob(f"{split}-*.parquet"))]


def _file_object(path: Path, folder: Path) -> dict[str, Any]:
    name = path.relative_to(folder).as_posix()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": "application/x-parquet",
        "sha256": digest,
    }


def _record_set(config: ConfigCard, path: Path, folder: Path) -> dict[str, Any]:
    name = f"{config.name}-{path.stem}"
    docs = docs_of(config)
    fields = [_field(name, path.relative_to(folder).as_posix(), field, docs) for field in config.schema]
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": " ".join((config.row.__doc__ or "").split()),
        "field": [field for field in fields if field],
    }


def _field(record_set: str, file: str, field: pa.Field, docs: dict[str, str]) -> dict[str, Any]:
    repeated = pa.types.is_list(field.type)
    kind = TYPES.get(str(field.type.value_type if repeated else field.type))
    if kind is None:
        return {}
    return {
        "@type": "cr:Field",
        "@id": f"{record_set}/{field.name}",
        "name": field.name,
        "description": docs[field.name],
        "dataType": kind,
        **({"repeated": True} if repeated else {}),
        "source": {"fileObject": {"@id": file}, "extract": {"column": field.name}},
    }
