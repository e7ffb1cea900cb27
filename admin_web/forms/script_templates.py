"""Templates for new scripts; they show how a script reads its arguments."""

from warren.broker.messages.values import ScriptLanguage

_TEMPLATES = {
    ScriptLanguage.SHELL: """\
#!/bin/sh
echo "param: $1"
echo "shard: $2 of $3"
""",
    ScriptLanguage.PYTHON: """\
import sys

param, shard, total = sys.argv[1:4]
print("param:", param)
print("shard:", shard, "of", total)
""",
    ScriptLanguage.NODEJS: """\
const [param, shard, total] = process.argv.slice(2);
console.log("param:", param);
console.log("shard:", shard, "of", total);
""",
    ScriptLanguage.PHP: """\
<?php
[, $param, $shard, $total] = $argv;
echo "param: $param\\n";
echo "shard: $shard of $total\\n";
""",
    ScriptLanguage.POWERSHELL: """\
param($param, $shard, $total)
Write-Output "param: $param"
Write-Output "shard: $shard of $total"
""",
    ScriptLanguage.GROOVY: """\
println "param: ${args[0]}"
println "shard: ${args[1]} of ${args[2]}"
""",
}


def template_for(language: str) -> str:
    """Return the template for a language; empty if the language is unknown."""
    return next((text for known, text in _TEMPLATES.items() if known == language), "")
