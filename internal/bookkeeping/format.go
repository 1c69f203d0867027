package bookkeeping

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Format names a format of exports.
type Format string

// The formats. Ledger and hledger read the same journal.
const (
	CSV       Format = "csv"
	JSON      Format = "json"
	Beancount Format = "beancount"
	Hledger   Format = "hledger"
	Ledger    Format = "ledger"
	OFX       Format = "ofx"
	Xero      Format = "xero"
)

// FormatInfo tells how a format is sent and shown.
type FormatInfo struct {
	Format
	Title, Extension, Type string
}

// Formats lists all formats.
func Formats() []FormatInfo {
	const text = "text/plain; charset=utf-8"
	return []FormatInfo{
		{CSV, "CSV", "csv", "text/csv; charset=utf-8; header=present"},
		{JSON, "JSON", "json", "application/json"},
		{Beancount, "Beancount", "beancount", text},
		{Hledger, "hledger", "journal", text},
		{Ledger, "Ledger", "ledger", text},
		{OFX, "OFX", "ofx", "application/x-ofx"},
		{Xero, "Xero", "csv", "text/csv; charset=utf-8; header=present"},
	}
}

// FormatNames lists the names of all formats.
func FormatNames() (names []string) {
	for _, f := range Formats() {
		names = append(names, string(f.Format))
	}
	return names
}

// Info finds a format by its name.
func Info(name string) (FormatInfo, error) {
	all := Formats()
	if i := slices.IndexFunc(all, func(f FormatInfo) bool { return string(f.Format) == name }); i >= 0 {
		return all[i], nil
	}
	return FormatInfo{}, fmt.Errorf("%q is not a format: %s", name, strings.Join(FormatNames(), ", "))
}

// Range is a time from From to before To. Zero is no bound.
type Range struct{ From, To time.Time }

// Month is the range of a month of UTC, such as 2026-10.
func Month(text string) (Range, error) {
	from, err := time.Parse("2006-01", text)
	if err != nil {
		return Range{}, fmt.Errorf("%q is not a month such as 2026-10", text)
	}
	return Range{from, from.AddDate(0, 1, 0)}, nil
}

// Has reports whether a moment is in the range.
func (r Range) Has(at time.Time) bool {
	return (r.From.IsZero() || !at.Before(r.From)) && (r.To.IsZero() || at.Before(r.To))
}

// String writes the range for people.
func (r Range) String() string {
	name := func(at time.Time) string {
		if at.IsZero() {
			return "…"
		}
		return at.UTC().Format(time.DateOnly)
	}
	switch {
	case r == Range{}:
		return "everything"
	case !r.From.IsZero() && r.From.Day() == 1 && r.From.AddDate(0, 1, 0).Equal(r.To):
		return r.From.UTC().Format("2006-01")
	}
	return name(r.From) + " to before " + name(r.To)
}

// Writer writes bookings in one format. They must come in the order of time. Close writes the end, and
// a file without it is not whole.
type Writer interface {
	Write(b Booking) error
	Close() error
}

// NewWriter returns the writer of a format. Equal bookings and an equal range give equal bytes.
func NewWriter(f Format, to io.Writer, over Range) (Writer, error) {
	switch f {
	case CSV:
		return newTable(to, csvHead, Booking.csvRow), nil
	case Xero:
		return newTable(to, xeroHead, Booking.xeroRow), nil
	case JSON:
		return newJSON(to, over), nil
	case Beancount:
		return newBeancount(to, over), nil
	case Hledger, Ledger:
		return newJournal(to, over), nil
	case OFX:
		return newOFX(to, over), nil
	}
	_, err := Info(string(f))
	return nil, err
}
