package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/plainjson"
)

// listing is a list of the admin endpoint that is printed page by page.
type listing[T any] struct {
	// name of the list and of the rows in a page, and of the parameter that asks for the page behind.
	name, cursor string
	page         int // rows to ask for at a time; 0: adminapi.MaxPage
	// keep says which rows are printed, and whether any can be behind one; nil: all are. With it,
	// position is the cursor behind a row.
	keep     func(T) (kept, goOn bool)
	position func(T) string
	// columns and cells are a table's, fields and values those of CSV.
	columns []column
	cells   func(T) []string
	fields  []string
	values  func(T) []string
	// each sees all rows that are printed. members are what JSON has beside them in the end.
	each    func(T)
	members func() map[string]any
}

// rowWriter prints rows in one form. Flush returns the first error of a row as well.
type rowWriter interface {
	row(values ...string)
	Flush() error
}

// print asks for pages and prints each as it comes. JSON has a member next if there is more than
// was asked for, and people are told.
func (l listing[T]) print(a *asking) error {
	var out rowWriter
	cells := func(_ json.RawMessage, v T) []string { return l.cells(v) }
	switch {
	case a.json.on:
		out = &jsonRows{bufio.NewWriter(a.OutOrStdout()), fmt.Sprintf("{\n %q: [", l.name)}
		cells = func(text json.RawMessage, _ T) []string { return []string{string(text)} }
	case a.csv:
		out = csvTable{csv.NewWriter(a.OutOrStdout())}
		cells = func(_ json.RawMessage, v T) []string { return l.values(v) }
		out.row(l.fields...)
	default:
		out = a.newColumns(l.columns)
	}
	count, next, more := 0, "", false
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
			if text, err = chosen[T](a.json, text); err != nil {
				return err
			}
			out.row(cells(text, v)...)
			if count == a.most {
				more = i < len(rows)-1
				if more && l.position != nil {
					next = l.position(v)
				}
				break
			}
		}
		if count > 0 { // the heads are as wide as the first rows
			err = out.Flush()
		}
		if err != nil {
			return err
		}
		goOn = next != "" && (a.most == 0 || count < a.most)
	}
	if next != "" || more {
		say(a.Command, "there are more; --limit shows them")
	}
	if rows, is := out.(*jsonRows); is {
		beside := map[string]any{}
		if l.members != nil {
			beside = l.members()
		}
		if next != "" {
			beside["next"] = next
		}
		if err := rows.end(beside); err != nil {
			return err
		}
	}
	return out.Flush()
}

// fetchPage asks for a page of a list, and what to ask for the next with; empty after the last.
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
	*bufio.Writer
	lead string
}

func (j *jsonRows) row(values ...string) {
	for _, text := range values {
		_, _ = fmt.Fprintf(j, "%s\n  %s", j.lead, plainJSON([]byte(text))) // Flush returns the error
		j.lead = ","
	}
}

// end closes the list and the object, which may have other members.
func (j *jsonRows) end(members map[string]any) error {
	end := "\n ]"
	if j.lead != "," {
		end = j.lead + "]"
	}
	if len(members) > 0 {
		text, err := plainjson.Marshal(members)
		if err != nil {
			return err
		}
		end += ",\n " + string(plainJSON(text[1:len(text)-1]))
	}
	_, err := fmt.Fprintln(j, end+"\n}")
	return err
}
