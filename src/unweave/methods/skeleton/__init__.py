"""The far skeleton: relu-like smooth networks from queries far out, where they are piecewise linear but for windows."""
