package cli

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
)

// listing is a list of the admin endpoint that is printed page by page, so that it takes no
// more memory however long it is.
type listing[T any] struct {
	path string
	ask  url.Values
	// name of the rows in a page, and of the parameter that asks for the page behind.
	name, cursor string
	// page rows are asked for at a time, and most are printed; 0: all.
	page, most int
	// keep says which rows are printed, and whether any can be behind one; nil: all are. With it,
	// position is the cursor behind a row.
	keep     func(T) (kept, goOn bool)
	position func(T) string
	// heads and cells are a table's, fields and values those of CSV.
	heads  []string
	cells  func(T) []string
	fields []string
	values func(T) []string
	// each sees all rows that are printed.
	each func(T)
}

// The forms that a listing can be printed in.
const (
	asTable = iota
	asJSON
	asCSV
)

// printer writes rows in one form.
type printer[T any] interface {
	row(text json.RawMessage, v T) error
	// page ends a page, close the list; what JSON has beside the rows are its members.
	page() error
	close(members map[string]any) error
}

func (l listing[T]) printer(w io.Writer, form int) printer[T] {
	switch form {
	case asJSON:
		return &jsonRows[T]{w: w, name: l.name}
	case asCSV:
		return &csvRows[T]{w: csvTable{csv.NewWriter(w)}, l: l}
	}
	return &tableRows[T]{w: newTable(w), l: l}
}

// print asks for pages and prints each as it comes. members is called when all rows were seen;
// it may be nil. JSON has a member next if there is more than was asked for, and people are
// told.
func (l listing[T]) print(c *cobra.Command, client *adminClient, form int, members func() map[string]any) error {
	out := l.printer(c.OutOrStdout(), form)
	count, next := 0, ""
	for goOn := true; goOn; {
		ask := l.page
		if l.most > 0 && l.keep == nil {
			ask = min(ask, l.most-count)
		}
		l.ask.Set("limit", strconv.Itoa(ask))
		if next != "" {
			l.ask.Set(l.cursor, next)
		}
		before := next
		rows, err := l.fetch(c.Context(), client, &next)
		if err != nil {
			return err
		}
		if next != "" && next == before {
			return errors.New("the list does not go on: is it a purser of this version?")
		}
		for i, text := range rows {
			var v T
			if err := json.Unmarshal(text, &v); err != nil {
				return client.misunderstood(err)
			}
			kept := true
			if l.keep != nil {
				if kept, goOn = l.keep(v); !goOn {
					next = ""
					break
				}
			}
			if !kept {
				continue
			}
			count++
			if l.each != nil {
				l.each(v)
			}
			if err := out.row(text, v); err != nil {
				return err
			}
			if count == l.most {
				if l.position != nil && i < len(rows)-1 {
					next = l.position(v)
				}
				break
			}
		}
		if err := out.page(); err != nil {
			return err
		}
		goOn = next != "" && (l.most == 0 || count < l.most)
	}
	beside := map[string]any{}
	if members != nil {
		beside = members()
	}
	if next != "" {
		beside["next"] = next
		say(c, "there are more; --limit shows them")
	}
	return out.close(beside)
}

// fetch asks for a page, and what to ask for the next with; that is empty after the last.
func (l listing[T]) fetch(ctx context.Context, client *adminClient, next *string) (rows []json.RawMessage, err error) {
	var page map[string]json.RawMessage
	if err := client.call(ctx, http.MethodGet, l.path+"?"+l.ask.Encode(), nil, &page); err != nil {
		return nil, err
	}
	*next = ""
	err = json.Unmarshal(page[l.name], &rows)
	if err == nil && page["next"] != nil {
		err = json.Unmarshal(page["next"], next)
	}
	if err != nil {
		return nil, client.misunderstood(err)
	}
	return rows, nil
}

// limitFlag adds the flag that bounds a list; unset 0 is a list of everything.
func limitFlag(c *cobra.Command, unset int) {
	usage := "how many at most"
	if unset == 0 {
		usage += " (default: all)"
	}
	c.Flags().Int("limit", unset, usage)
}

// limitOf returns how many rows a command is to print; 0 is all.
func limitOf(c *cobra.Command) (int, error) {
	n, err := c.Flags().GetInt("limit")
	if err == nil && n < 1 && c.Flags().Changed("limit") {
		err = errors.New("--limit: a number above 0")
	}
	return n, err
}

// tableRows are for people. Columns are as wide as a page needs them.
type tableRows[T any] struct {
	w     *table
	l     listing[T]
	begun bool
}

func (t *tableRows[T]) row(_ json.RawMessage, v T) error {
	t.head()
	t.w.row(t.l.cells(v)...)
	return nil
}

func (t *tableRows[T]) head() {
	if !t.begun {
		t.begun = true
		t.w.row(t.l.heads...)
	}
}

func (t *tableRows[T]) page() error { return t.w.flush() }

func (t *tableRows[T]) close(map[string]any) error {
	t.head()
	return t.w.flush()
}

// csvRows are for spreadsheets.
type csvRows[T any] struct {
	w     csvTable
	l     listing[T]
	begun bool
}

func (c *csvRows[T]) row(_ json.RawMessage, v T) error {
	if err := c.head(); err != nil {
		return err
	}
	return c.w.row(c.l.values(v))
}

func (c *csvRows[T]) head() error {
	if c.begun {
		return nil
	}
	c.begun = true
	return c.w.Write(c.l.fields)
}

func (c *csvRows[T]) page() error {
	c.w.Flush()
	return c.w.Error()
}

func (c *csvRows[T]) close(map[string]any) error {
	if err := c.head(); err != nil {
		return err
	}
	return c.page()
}

// jsonRows are one object for programs, with a row on each line.
type jsonRows[T any] struct {
	w     io.Writer
	name  string
	begun bool
}

func (j *jsonRows[T]) row(text json.RawMessage, _ T) error {
	lead := ",\n  "
	if !j.begun {
		j.begun = true
		lead = fmt.Sprintf("{\n %q: [\n  ", j.name)
	}
	_, err := fmt.Fprintf(j.w, "%s%s", lead, plainJSON(text))
	return err
}

func (*jsonRows[T]) page() error { return nil }

func (j *jsonRows[T]) close(members map[string]any) error {
	end := "\n ]"
	if !j.begun {
		end = fmt.Sprintf("{\n %q: []", j.name)
	}
	if len(members) > 0 {
		text, err := json.Marshal(members)
		if err != nil {
			return err
		}
		end += ",\n " + string(plainJSON(text[1:len(text)-1]))
	}
	_, err := fmt.Fprintln(j.w, end+"\n}")
	return err
}

// form returns the form that a command is told to print in.
func form(c *cobra.Command) (int, error) {
	var asked [2]bool
	for i, name := range []string{"json", "csv"} {
		if c.Flags().Lookup(name) == nil {
			continue
		}
		var err error
		if asked[i], err = c.Flags().GetBool(name); err != nil {
			return 0, err
		}
	}
	switch {
	case asked[0] && asked[1]:
		return 0, errors.New("--json or --csv, not both")
	case asked[0]:
		return asJSON, nil
	case asked[1]:
		return asCSV, nil
	}
	return asTable, nil
}
