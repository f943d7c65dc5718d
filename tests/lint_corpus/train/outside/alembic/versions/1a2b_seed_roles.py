from datetime import datetime

import sqlalchemy as sa
from alembic import op

revision = "1a2b"
down_revision = None


def upgrade():
    roles = op.create_table("roles", sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.String), sa.Column("created", sa.DateTime))
    op.bulk_insert(roles, [{"id": 1, "name": "admin", "created": datetime.now()}])
    op.execute("INSERT INTO settings (key, value) VALUES ('theme', 'light')")


def downgrade():
    op.drop_table("roles")
