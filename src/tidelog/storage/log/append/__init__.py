"""An append: checked, validated, laid out over segments, written."""
