"""Maps of piecewise linear functions on planes through a bounded domain, and networks of any depth read off them."""
