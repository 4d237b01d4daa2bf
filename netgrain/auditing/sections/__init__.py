"""The sections of an audit, one file each: what is measured, said and shown; `registry` finds the files."""
