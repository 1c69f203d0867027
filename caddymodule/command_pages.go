package caddymodule

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// registerBookCommands adds the commands that list what purser's books have.
func registerBookCommands() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name: "keys", Usage: "[flags]",
		Short: "Lists API keys, or makes one", Long: keysHelp, CobraFunc: keysCommand,
	})
	caddycmd.RegisterCommand(caddycmd.Command{
		Name: "wallets", Usage: "[flags]",
		Short: "Lists wallets with their balances, or makes one", Long: walletsHelp, CobraFunc: walletsCommand,
	})
	caddycmd.RegisterCommand(caddycmd.Command{
		Name: "spend", Usage: "[flags]",
		Short: "Lists what was spent", Long: spendHelp, CobraFunc: spendCommand,
	})
}

// listing is a list of the admin endpoint that is printed page by page, so that it takes no
// more memory however long it is.
type listing[T any] struct {
	path string
	ask  url.Values
	// name of the rows in a page, and of the parameter that asks for the page behind.
	name, cursor string
	// heads and cells are a table's, fields and values those of CSV.
	heads  []string
	cells  func(T) []string
	fields []string
	values func(T) []string
	// each sees all rows.
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
		return &csvRows[T]{w: csv.NewWriter(w), l: l}
	}
	return &tableRows[T]{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), l: l}
}

// print asks for all pages and prints each as it comes. members is called when all rows were
// seen; it may be nil.
func (l listing[T]) print(ctx context.Context, client *adminClient, w io.Writer, form int, members func() map[string]any) error {
	out := l.printer(w, form)
	for next := ""; ; {
		if next != "" {
			l.ask.Set(l.cursor, next)
		}
		var page map[string]json.RawMessage
		if err := client.call(ctx, http.MethodGet, l.path+"?"+l.ask.Encode(), nil, &page); err != nil {
			return err
		}
		var rows []json.RawMessage
		before := next
		next = ""
		err := json.Unmarshal(page[l.name], &rows)
		if err == nil && page["next"] != nil {
			err = json.Unmarshal(page["next"], &next)
		}
		if err != nil {
			return fmt.Errorf("%s: the answer is not understood: %w", client.address, err)
		}
		if next != "" && next == before {
			return errors.New("the list does not go on: is it a purser of this version?")
		}
		for _, text := range rows {
			var v T
			if err := json.Unmarshal(text, &v); err != nil {
				return fmt.Errorf("%s: the answer is not understood: %w", client.address, err)
			}
			if l.each != nil {
				l.each(v)
			}
			if err := out.row(text, v); err != nil {
				return err
			}
		}
		if err := out.page(); err != nil {
			return err
		}
		if next == "" {
			break
		}
	}
	var more map[string]any
	if members != nil {
		more = members()
	}
	return out.close(more)
}

// tableRows are for people. Columns are as wide as a page needs them.
type tableRows[T any] struct {
	w     *tabwriter.Writer
	l     listing[T]
	begun bool
}

func (t *tableRows[T]) row(_ json.RawMessage, v T) error {
	t.head()
	cells(t.w, t.l.cells(v)...)
	return nil
}

func (t *tableRows[T]) head() {
	if !t.begun {
		t.begun = true
		cells(t.w, t.l.heads...)
	}
}

func (t *tableRows[T]) page() error { return t.w.Flush() }

func (t *tableRows[T]) close(map[string]any) error {
	t.head()
	return t.w.Flush()
}

// csvRows are for spreadsheets.
type csvRows[T any] struct {
	w     *csv.Writer
	l     listing[T]
	begun bool
}

func (c *csvRows[T]) row(_ json.RawMessage, v T) error {
	if err := c.head(); err != nil {
		return err
	}
	return c.w.Write(c.l.values(v))
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
	_, err := fmt.Fprintf(j.w, "%s%s", lead, text)
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
		end += ",\n " + string(text[1:len(text)-1])
	}
	_, err := fmt.Fprintln(j.w, end+"\n}")
	return err
}

// form is how a command is told to print.
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

// oneOf completes a flag with the values that it can have.
func oneOf(c *cobra.Command, flag string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
