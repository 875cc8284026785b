"""What a page of the report shows."""

from html.parser import HTMLParser

from ttl_mm.report import write_report


class Page(HTMLParser):
    """Checks that tags nest; gathers text, images, and for every section its tables as rows."""

    def __init__(self, path):
        super().__init__()
        self.open, self.images, self.text = [], [], ''
        self.tables = {}  # title of a section: its tables, each a list of rows of cells
        self.feed(path.read_text('utf-8'))
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag == 'img':
            self.images.append(dict(attrs))
        elif tag != 'meta':
            self.open.append(tag)
        if tag == 'h2':
            self.title = ''
        elif tag == 'table':
            self.tables[self.title].append([])
        elif tag == 'tr':
            self.tables[self.title][-1].append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == 'h2':
            assert self.title not in self.tables, f'{self.title} is there twice'
            self.tables[self.title] = []

    def handle_data(self, data):
        if self.open and self.open[-1] in ('script', 'style'):
            return
        self.text += data
        if self.open and self.open[-1] == 'h2':
            self.title += data
        elif self.open and self.open[-1] in ('td', 'th'):
            self.tables[self.title][-1][-1].append(data)


def page_of(folder, *inputs, **options):
    """The page of these runs and results, without the paper's, which is written into a folder."""
    return Page(write_report(inputs, folder / 'page', with_paper=False, **options))
