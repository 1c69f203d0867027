package cli

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/purserpay/purser/internal/adminapi"
)

// listing is a list of the admin endpoint that is printed page by page, so that it takes no
// more memory however long it is.
type listing[T any] struct {
	// name of the list and of the rows in a page, and of the parameter that asks for the page behind.
	name, cursor string
	page         int // rows to ask for at a time; 0: adminapi.MaxPage
	// keep says which rows are printed, and whether any can be behind one; nil: all are. With it,
	// position is the cursor behind a row.
	keep     func(T) (kept, goOn bool)
	position func(T) string
	// heads and cells are a table's, fields and values those of CSV.
	heads  []string
	cells  func(T) []string
	fields []string
	values func(T) []string
	// each sees all rows that are printed. members are what JSON has beside them in the end.
	each    func(T)
	members func() map[string]any
}

// printer writes rows in one form.
type printer[T any] struct {
	row func(text json.RawMessage, v T) error
	// flush ends a page; end, if there is one, the list.
	flush func() error
	end   func(members map[string]any) error
}

// printer prints to w. A table's columns are as wide as a page needs them.
func (l listing[T]) printer(w io.Writer, a *asking) printer[T] {
	switch {
	case a.json:
		rows := &jsonRows{w: w, name: l.name}
		return printer[T]{
			row:   func(text json.RawMessage, _ T) error { return rows.row(text) },
			flush: func() error { return nil },
			end:   rows.close,
		}
	case a.csv:
		rows := csvTable{csv.NewWriter(w)}
		_ = rows.Write(l.fields) // flush returns the error
		return printer[T]{
			row: func(_ json.RawMessage, v T) error { return rows.row(l.values(v)) },
			flush: func() error {
				rows.Flush()
				return rows.Error()
			},
		}
	}
	rows := newTable(w)
	rows.row(l.heads...)
	return printer[T]{flush: rows.Flush, row: func(_ json.RawMessage, v T) error {
		rows.row(l.cells(v)...)
		return nil
	}}
}

// print asks for pages and prints each as it comes. JSON has a member next if there is more than
// was asked for, and people are told.
func (l listing[T]) print(a *asking) error {
	out := l.printer(a.OutOrStdout(), a)
	count, next := 0, ""
	for goOn := true; goOn; {
		ask := cmp.Or(l.page, adminapi.MaxPage)
		if a.most > 0 && l.keep == nil {
			ask = min(ask, a.most-count)
		}
		a.ask.Set("limit", strconv.Itoa(ask))
		if next != "" {
			a.ask.Set(l.cursor, next)
		}
		rows, behind, err := fetchPage[json.RawMessage](a.Context(), a.client, l.name, a.ask)
		if err != nil {
			return err
		}
		if behind != "" && behind == next {
			return errors.New("the list does not go on: is it a purser of this version?")
		}
		next = behind
		for i, text := range rows {
			var v T
			if err := json.Unmarshal(text, &v); err != nil {
				return a.client.misunderstood(err)
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
			if count == a.most {
				if l.position != nil && i < len(rows)-1 {
					next = l.position(v)
				}
				break
			}
		}
		if count > 0 { // the heads are as wide as the first rows
			err = out.flush()
		}
		if err != nil {
			return err
		}
		goOn = next != "" && (a.most == 0 || count < a.most)
	}
	if next != "" {
		say(a.Command, "there are more; --limit shows them")
	}
	if out.end == nil {
		return out.flush()
	}
	beside := map[string]any{}
	if l.members != nil {
		beside = l.members()
	}
	if next != "" {
		beside["next"] = next
	}
	return out.end(beside)
}

// fetchPage asks for a page of a list, and what to ask for the next with; that is empty after the
// last.
func fetchPage[T any](
	ctx context.Context, client *adminClient, name string, ask url.Values,
) (rows []T, next string, err error) {
	var page map[string]json.RawMessage
	if err := client.call(ctx, http.MethodGet, "/purser/"+name+"?"+ask.Encode(), nil, &page); err != nil {
		return nil, "", err
	}
	err = json.Unmarshal(page[name], &rows)
	if err == nil && page["next"] != nil {
		err = json.Unmarshal(page["next"], &next)
	}
	if err != nil {
		return nil, "", client.misunderstood(err)
	}
	return rows, next, nil
}

// jsonRows are one object for programs, with a row on each line.
type jsonRows struct {
	w     io.Writer
	name  string
	begun bool
}

func (j *jsonRows) row(text json.RawMessage) error {
	lead := ",\n  "
	if !j.begun {
		j.begun = true
		lead = fmt.Sprintf("{\n %q: [\n  ", j.name)
	}
	_, err := fmt.Fprintf(j.w, "%s%s", lead, plainJSON(text))
	return err
}

func (j *jsonRows) close(members map[string]any) error {
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
