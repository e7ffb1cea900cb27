"""Writes docs/openapi.json: the description that the API serves at /api/v1/openapi.json."""

import json
from pathlib import Path

from warren.admin_web.api.application import api_description

TARGET = Path(__file__).parents[2] / "docs" / "openapi.json"

if __name__ == "__main__":
    TARGET.write_text(json.dumps(api_description(), indent=2, ensure_ascii=False) + "\n")
