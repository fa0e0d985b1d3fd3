"""Write the committed dashboards."""

from tools.dashboards.boards import BOARDS
from tools.dashboards.build import FOLDER, text_of

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for board in BOARDS:
        (FOLDER / f"{board.uid}.json").write_text(text_of(board))
        print(f"{FOLDER.name}/{board.uid}.json: {len(board.panels)} panels")
