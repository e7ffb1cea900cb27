"""The handlers that an executor has when `WARREN_BUILTIN` names them: jobs without code.

Each module has `declare(code)`, which declares its handler; the zygote imports it by its name.
"""
