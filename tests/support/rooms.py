"""The rooms of the product: its top-level folders, installed as `ostler.<room>`."""

ROOMS = ("wire", "process", "metrics", "demo", "pool", "bridge", "gateway")
