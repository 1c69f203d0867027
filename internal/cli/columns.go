package cli

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/term"
)

// column is one of a list. Its content says how it gets narrower where a terminal has no room.
type column struct {
	head  string
	holds content
	// spare columns go first where there is no room, those with the highest number before the others.
	spare int
}

type content int

const (
	wholeCell content = iota
	textCell          // is cut
	idCell            // is cut to what tells ids apart
	timeCell          // in RFC 3339, gets shorter
)

// columns is a list for people. On a terminal it is as wide as that, at most; elsewhere nothing is cut.
// The columns of each part that is flushed are as wide as it needs them.
type columns struct {
	io.Writer
	list  []column
	width int // of the terminal; 0: it is none
	now   time.Time
	rows  [][]string
	begun bool // the heads are printed
}

const (
	gap = "  "
	// shortID holds the time in milliseconds of a UUIDv7. Ids of one millisecond get more.
	shortID   = len("01a209ac-0c47")
	leastText = 10 // characters to which text is cut before columns go
)

func (t *columns) row(values ...string) {
	shown := make([]string, len(values))
	for i, v := range values {
		shown[i] = label(v)
	}
	t.rows = append(t.rows, shown)
}

// Flush prints the rows.
func (t *columns) Flush() error {
	if len(t.rows) == 0 && t.begun {
		return nil
	}
	list := slices.Clone(t.list)
	rows := t.rows
	t.rows = nil
	if t.width > 0 {
		t.shorten(rows)
	}
	if !t.begun {
		heads := make([]string, len(list))
		for i, c := range list {
			heads[i] = c.head
		}
		rows = append([][]string{heads}, rows...)
		t.begun = true
	}
	widths := t.fit(list, rows)
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i >= len(widths) || widths[i] < 0 {
				continue
			}
			if t.width > 0 && list[i].holds == textCell {
				cell = cut(cell, widths[i])
			}
			line.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)) + gap)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(t.Writer, b.String())
	return err
}

// shorten makes ids and times shorter.
func (t *columns) shorten(rows [][]string) {
	for i, c := range t.list {
		var all []string
		for _, row := range rows {
			all = append(all, row[i])
		}
		most := tellApart(all)
		for _, row := range rows {
			switch c.holds {
			case idCell:
				row[i] = beginning(row[i], most)
			case textCell:
				row[i] = beginning(row[i], shortID)
			case timeCell:
				row[i] = shortTime(row[i], t.now)
			case wholeCell:
			}
		}
	}
}

// tellApart returns how many characters of ids tell them apart, behind the prefix of their kind.
func tellApart(all []string) int {
	for n := shortID; ; n++ {
		seen, longer := map[string]string{}, false
		clash := false
		for _, id := range all {
			short := beginning(id, n)
			longer = longer || short != id
			clash = clash || seen[short] != "" && seen[short] != id
			seen[short] = id
		}
		if !clash || !longer {
			return n
		}
	}
}

// beginning returns the first characters of a UUID, and the prefix before it. Other texts stay.
func beginning(id string, n int) string {
	rest := id[strings.Index(id, "_")+1:]
	if _, err := uuid.Parse(rest); err != nil {
		return id
	}
	return id[:len(id)-len(rest)] + rest[:min(n, len(rest))]
}

// shortTime is a time as lists of files have it: without the year if that is clear.
func shortTime(rfc3339 string, now time.Time) string {
	at, err := time.Parse(time.RFC3339, rfc3339)
	if err != nil {
		return rfc3339
	}
	if at.After(now.AddDate(0, -11, 0)) {
		return at.Format("Jan 02 15:04")
	}
	return at.Format("Jan 02  2006")
}

// fit returns the widths of columns. A column for which there is no room gets -1.
func (t *columns) fit(list []column, rows [][]string) []int {
	widths := make([]int, len(list))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	if t.width <= 0 {
		return widths
	}
	for least := leastText; ; {
		if t.narrow(list, widths, least) {
			return widths
		}
		worst := -1
		for i, c := range list {
			if widths[i] >= 0 && c.spare > 0 && (worst < 0 || c.spare > list[worst].spare) {
				worst = i
			}
		}
		switch {
		case worst >= 0:
			widths[worst] = -1
		case least > 0:
			least = 0
		default:
			return widths
		}
	}
}

// narrow takes width from the widest text until all columns fit, and reports whether they do.
func (t *columns) narrow(list []column, widths []int, least int) bool {
	tried := slices.Clone(widths)
	for {
		sum, widest := -len(gap), -1
		for i, w := range tried {
			if w < 0 {
				continue
			}
			sum += w + len(gap)
			if list[i].holds == textCell && w > max(least, utf8.RuneCountInString(list[i].head)) && (widest < 0 || w > tried[widest]) {
				widest = i
			}
		}
		if sum <= t.width {
			copy(widths, tried)
			return true
		}
		if widest < 0 {
			if least == 0 { // the terminal wraps the lines
				copy(widths, tried)
			}
			return false
		}
		tried[widest]--
	}
}

// cut shortens a text to a number of characters.
func cut(cell string, most int) string {
	if utf8.RuneCountInString(cell) <= most {
		return cell
	}
	return string([]rune(cell)[:max(0, most-1)]) + "…"
}

// width returns the columns of the terminal that a command prints to; 0: it is none.
func (a *asking) width() int {
	if n, err := strconv.Atoi(a.env.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	out, is := a.OutOrStdout().(interface{ Fd() uintptr })
	if !is || !term.IsTerminal(int(out.Fd())) {
		return 0
	}
	n, _, err := term.GetSize(int(out.Fd()))
	if err != nil {
		return 0
	}
	return n
}

func (a *asking) newColumns(list []column) *columns {
	return &columns{Writer: a.OutOrStdout(), list: list, width: a.width(), now: a.env.Now()}
}
