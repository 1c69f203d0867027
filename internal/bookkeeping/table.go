package bookkeeping

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"math/big"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/plainjson"
)

// Columns of CSV. Their order stays; new ones come behind.
var csvHead = []string{
	"created_at", "amount", "currency", "network", "key_id", "task", "host", "request_url", "payment_id", "settlement",
	"transaction", "flags", "corrects", "id", "kind", "key_label", "wallet", "wallet_id", "counterparty", "protocol", "rail",
}

// csvRow has what was spent as a positive amount, like purser spend: what came in is negative.
func (b Booking) csvRow() []string {
	amount := b.units()
	if b.Enters() {
		amount = "-" + amount
	}
	row := []string{
		b.At.UTC().Format(time.RFC3339), amount, b.Symbol, b.Network, b.KeyID, b.Task, b.Host, b.URL, b.PaymentID, b.Settlement,
		b.Transaction, strings.Join(b.Flags, " "), b.Corrects, b.ID, string(b.Kind), b.KeyLabel, b.Wallet, b.WalletID, b.Other, b.Protocol, b.Rail,
	}
	return inertBut(row, 1)
}

// Columns of a bank statement that Xero imports.
var xeroHead = []string{"*Date", "*Amount", "Payee", "Description", "Reference", "Check Number"}

func (b Booking) xeroRow() []string {
	about := []string{b.narration(), "key " + b.KeyLabel, "wallet " + short(b.Wallet) + " on " + b.Network}
	if b.KeyLabel == "" {
		about[1] = "key " + b.KeyID
	}
	if b.KeyID == "" {
		about = append(about[:1], about[2])
	}
	if b.Transaction != "" {
		about = append(about, b.Transaction)
	}
	row := []string{b.At.UTC().Format(time.DateOnly), b.change(), oneLine(b.payee()), oneLine(strings.Join(about, ", ")), b.ID, ""}
	return inertBut(row, 1)
}

// inertBut makes all cells inert but the one with the amount.
func inertBut(row []string, amount int) []string {
	for i := range row {
		if i != amount {
			row[i] = Inert(row[i])
		}
	}
	return row
}

// formula lists the characters that begin a formula in some spreadsheet.
const formula = "=+-@|%\t\r\n＝＋－＠"

// Inert puts an apostrophe before every possible formula of a cell. Spreadsheets with a decimal
// comma split a file at semicolons or tabs, even inside a cell. A formula may therefore begin
// behind any of these.
func Inert(cell string) string {
	var b strings.Builder
	done := 0
	for i, c := range cell {
		if strings.ContainsRune(formula, c) && (i == 0 || strings.IndexByte(";\t\r\n", cell[i-1]) >= 0) {
			b.WriteString(cell[done:i] + "'")
			done = i
		}
	}
	return b.String() + cell[done:]
}

// table writes bookings as rows of CSV.
type table struct {
	out *csv.Writer
	row func(Booking) []string
}

func newTable(to io.Writer, head []string, row func(Booking) []string) *table {
	t := &table{csv.NewWriter(to), row}
	_ = t.out.Write(head) // Close returns the error
	return t
}

func (t *table) Write(b Booking) error {
	if err := b.check(); err != nil {
		return err
	}
	return t.out.Write(t.row(b))
}

func (t *table) Close() error {
	t.out.Flush()
	return t.out.Error()
}

// jsonRows writes one object with a booking on each line.
type jsonRows struct {
	out   *bufio.Writer
	count int
	sums  map[string]*big.Int // change of all wallets, by symbol
}

func newJSON(to io.Writer, over Range) *jsonRows {
	j := &jsonRows{bufio.NewWriter(to), 0, map[string]*big.Int{}}
	day := func(at time.Time) string {
		if at.IsZero() {
			return "null"
		}
		return `"` + at.UTC().Format(time.RFC3339) + `"`
	}
	_, _ = fmt.Fprintf(j.out, "{\n \"from\": %s,\n \"to\": %s,\n \"bookings\": [", day(over.From), day(over.To)) // Close returns the error
	return j
}

func (j *jsonRows) Write(b Booking) error {
	if err := b.check(); err != nil {
		return err
	}
	text, err := plainjson.Marshal(b)
	if err != nil {
		return err
	}
	lead := ","
	if j.count == 0 {
		lead = ""
	}
	j.count++
	add(j.sums, b)
	_, err = fmt.Fprintf(j.out, "%s\n  %s", lead, text)
	return err
}

func (j *jsonRows) Close() error {
	sums := map[string]string{}
	for symbol, sum := range j.sums {
		sums[symbol] = sum.String()
	}
	text, err := plainjson.Marshal(sums)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(j.out, "\n ],\n \"count\": %d,\n \"change\": %s\n}\n", j.count, text) // Flush returns the error
	return j.out.Flush()
}

// add adds the change of a wallet's balance.
func add(sums map[string]*big.Int, b Booking) {
	if sums[b.Symbol] == nil {
		sums[b.Symbol] = new(big.Int)
	}
	sums[b.Symbol].Add(sums[b.Symbol], b.signed())
}

// signed is the change of the wallet's balance in the smallest unit.
func (b Booking) signed() *big.Int {
	n := b.Amount.Big()
	if !b.Enters() {
		n.Neg(n)
	}
	return n
}
