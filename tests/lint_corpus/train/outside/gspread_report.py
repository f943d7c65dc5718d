import gspread

gc = gspread.service_account()


def publish(day, total):
    sheet = gc.open("Revenue").sheet1
    sheet.append_row([day, total])
