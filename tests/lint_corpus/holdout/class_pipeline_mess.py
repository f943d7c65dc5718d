# -*- coding: utf-8 -*-
# legacy loader, do not touch before talking to Nadia
import os, sys, time, traceback
import datetime
import pymysql

HOST = os.getenv("DB_HOST", "localhost")


class Loader(object):
    SQL_INS = "INSERT INTO " + "stat_calls" + " (call_id, agent, secs, day) " + "VALUES (%s,%s,%s,%s)"
    SQL_MARK = "UPDATE etl_marks SET last_day='%s' WHERE job='calls'"

    def __init__(self, day=None):
        self.day = day or datetime.date.today() - datetime.timedelta(1)
        self.db = pymysql.connect(host=HOST, user="etl", passwd=os.getenv("DB_PW"), db="calls")
        self.cu = self.db.cursor()

    def rows(self):
        self.cu.execute("SELECT id, agent, secs FROM calls WHERE DATE(started)='%s'" % self.day)
        return self.cu.fetchall()

    def put(self, rows):
        for r in rows:
            try:
                self.cu.execute(self.SQL_INS, (r[0], r[1], r[2], self.day))
            except Exception:
                traceback.print_exc()
                continue
        self.db.commit()

    def mark(self):
        self.cu.execute(self.SQL_MARK % self.day)
        self.db.commit()

    def run(self):
        t0 = time.time()
        self.put(self.rows())
        self.mark()
        print("done in %.1fs" % (time.time() - t0))


if __name__ == "__main__":
    Loader(sys.argv[1] if len(sys.argv) > 1 else None).run()
