package bookkeeping

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

var update = flag.Bool("update", false, "write the golden files")

var october = Range{time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}

// example are bookings of each kind, with what sellers, agents and owners of keys may write.
func example() []Booking {
	at := time.Date(2026, 10, 3, 12, 0, 0, 0, time.UTC)
	wallet, seller := "0x857b06519e91e3a54538791bdbb0e22373e36b66", "0x209693bc6afc0c5328ba36faf03c514ef312287c"
	b := func(n int, amount uint64) Booking {
		return Booking{
			ID: fmt.Sprintf("0199aaaa-0000-7000-8000-%012d", n), Kind: Payment, At: at.Add(time.Duration(n) * time.Hour), Amount: money.New(amount),
			Symbol: "USDC", Digits: 6, Network: "base", Wallet: wallet, WalletID: "0199aaaa-0000-7000-8000-00000000aaaa",
			KeyID: "0199aaaa-0000-7000-8000-00000000bbbb", KeyLabel: "research", KeyName: "Research", Host: "api.example.com", Task: "nightly",
			URL: "https://api.example.com/report", PaymentID: fmt.Sprintf("0199bbbb-0000-7000-8000-%012d", n), Other: seller,
			Transaction: fmt.Sprintf("0x%064x", n), Settlement: "seller", Flags: []string{},
		}
	}
	deposit := b(0, 5_000_000)
	deposit.Kind, deposit.ID, deposit.PaymentID, deposit.Host, deposit.Task, deposit.URL, deposit.KeyID, deposit.KeyLabel = Deposit, deposit.Transaction+".7", "", "", "", "", "", ""
	plain, upto := b(1, 10_000), b(2, 1)
	plain.Protocol, plain.Rail, upto.Protocol, upto.Rail = "mpp", "mpp-evm", "x402", "permit2"
	disproved := b(3, 2_500_000)
	disproved.Flags = []string{"disputed"}
	hostile := b(4, 123_456_789_012_345)
	hostile.KeyLabel = "=cmd|' /C calc'!A0\n2026-10-03 * \"x\"\n  Assets:Stolen  1 USDC; [2026-01-01] 研究 ]]></MEMO>"
	hostile.KeyName = component(hostile.KeyLabel)
	hostile.Host = "[::1]:8443"
	hostile.URL = "https://[::1]:8443/%0A;,|\"a\\b\r\n\t@SUM(1)\x00\u202e"
	hostile.Task = ""
	correction := b(5, 2_500_000)
	correction.Corrects, correction.PaymentID, correction.Transaction, correction.Flags = disproved.ID, disproved.PaymentID, disproved.Transaction, disproved.Flags
	withdrawal := b(6, 1_000_000)
	withdrawal.Kind, withdrawal.Host, withdrawal.Task, withdrawal.URL = Withdrawal, "withdrawal", "", "withdraw:"+seller
	found := b(7, 70)
	found.Host, found.Task, found.URL, found.Flags = "", "", "", []string{"confirmed", "reconciled"}
	unbooked := b(8, 30)
	unbooked.Kind, unbooked.ID, unbooked.PaymentID, unbooked.Host, unbooked.Task, unbooked.URL = Unbooked, unbooked.Transaction+".9", "", "", "", ""
	return []Booking{deposit, plain, upto, disproved, hostile, correction, withdrawal, found, unbooked}
}

// Each format names the tool of MCP that was paid for.
func TestToolsAreNamed(t *testing.T) {
	t.Parallel()
	b := example()[1]
	b.Host, b.URL = "tools.example.com", "mcp://tools.example.com/tool/search"
	for _, f := range Formats() {
		if text := string(written(t, f.Format, Range{}, []Booking{b})); !strings.Contains(text, b.URL) {
			t.Errorf("%s: %s", f.Format, text)
		}
	}
}

func written(t testing.TB, f Format, over Range, list []Booking) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(f, &out, over)
	for _, b := range list {
		if err == nil {
			err = w.Write(b)
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(f, err)
	}
	return out.Bytes()
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for _, f := range Formats() {
		got := written(t, f.Format, october, example())
		if again := written(t, f.Format, october, example()); !bytes.Equal(got, again) {
			t.Error(f.Format, "is written differently a second time")
		}
		path := filepath.Join("testdata", "october-"+string(f.Format)+"."+f.Extension)
		if *update {
			if err := os.WriteFile(path, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v; it differs from what is written (-update writes it):\n%s", path, err, got)
		}
	}
	if _, err := NewWriter("qif", io.Discard, october); err == nil {
		t.Error("a writer of an unknown format")
	}
}

func TestIncompleteBookingIsRefused(t *testing.T) {
	t.Parallel()
	for _, f := range Formats() {
		for name, change := range map[string]func(*Booking){
			"id": func(b *Booking) { b.ID = "" }, "time": func(b *Booking) { b.At = time.Time{} }, "symbol": func(b *Booking) { b.Symbol = "" },
		} {
			b := example()[0]
			change(&b)
			w, err := NewWriter(f.Format, io.Discard, october)
			if err != nil {
				t.Fatal(err)
			}
			if w.Write(b) == nil {
				t.Error(f.Format, "takes a booking without", name)
			}
		}
	}
}

var accountPart = regexp.MustCompile(`^[A-Z0-9][A-Za-z0-9-]*$`)

func TestComponents(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"api.example.com": "Api-example-com", "my-api.example.com": "My--api-example-com", "0x857b0651": "0x857b0651", "base-sepolia": "Base--sepolia",
		"127.0.0.1": "127-0-0-1", "API.example.com": "API-example-com",
	} {
		if got := component(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		host := rapid.OneOf(rapid.StringMatching(`[a-z0-9.:\[\]-]{0,12}`), rapid.String())
		a, b := host.Draw(t, "a"), host.Draw(t, "b")
		for _, text := range []string{a, b} {
			if got := component(text); !accountPart.MatchString(got) || len(got) > maxComponent+11 {
				t.Fatalf("%q: %q is no part of an account", text, got)
			}
		}
		if low(a) && low(b) && a != b && component(a) == component(b) {
			t.Fatalf("%q and %q are both %s", a, b, component(a))
		}
	})
}

// low reports whether a text has no capital, as hosts have none.
func low(text string) bool { return strings.ToLower(text) == text }

func TestKeyNames(t *testing.T) {
	t.Parallel()
	keys := []pay.Key{
		{ID: "0199aaaa-0000-7000-8000-00000000000a", Label: "ci"},
		{ID: "0199aaaa-0000-7000-8000-00000000000b", Label: "Ci"},
		{ID: "0199aaaa-0000-7000-8000-00000000000c", Label: "ci"},
		{ID: "0199aaaa-0000-7000-8000-00000000000d"},
		{ID: "0199aaaa-0000-7000-8000-00000000000e", Label: "研究"},
	}
	names := KeyNames(keys)
	want := []string{"Ci", "Ci-00000b", "Ci-00000c", "Key-00000d", component("研究")}
	for i, k := range keys {
		if names[k.ID] != want[i] {
			t.Errorf("%q: %q, want %q", k.Label, names[k.ID], want[i])
		}
	}
	fewer := KeyNames(keys[:2])
	for _, k := range keys[:2] {
		if fewer[k.ID] != names[k.ID] {
			t.Errorf("%s is %s until further keys come, then %s", k.ID, fewer[k.ID], names[k.ID])
		}
	}
}

// drawn are any bookings in the order of time, and corrections of some.
func drawn(t *rapid.T) (list []Booking) {
	at := october.From
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[=+@;:,|"'\[\]{}() \t\r\n-]{0,20}`))
	for i := range rapid.IntRange(1, 20).Draw(t, "count") {
		at = at.Add(time.Duration(rapid.IntRange(0, 36).Draw(t, "hours")) * time.Hour)
		b := Booking{
			ID: fmt.Sprintf("0199aaaa-0000-7000-8000-%012d", i), Kind: rapid.SampledFrom([]Kind{Payment, Payment, Withdrawal, Deposit, Unbooked}).Draw(t, "kind"),
			At: at, Amount: money.New(rapid.Uint64().Draw(t, "amount")), Symbol: "USDC", Digits: 6, Network: "base",
			Wallet: fmt.Sprintf("0x%040x", rapid.IntRange(1, 3).Draw(t, "wallet")), KeyLabel: text.Draw(t, "label"),
			Host: text.Draw(t, "host"), Task: text.Draw(t, "task"), URL: text.Draw(t, "url"), Other: fmt.Sprintf("0x%040x", 99),
			PaymentID: fmt.Sprintf("0199bbbb-0000-7000-8000-%012d", i), Transaction: fmt.Sprintf("0x%064x", i), Flags: []string{text.Draw(t, "flag")},
		}
		b.KeyName = component(b.KeyLabel)
		list = append(list, b)
		if b.Kind == Payment && rapid.Bool().Draw(t, "corrected") {
			back := b
			back.ID, back.Corrects = b.ID+"c", b.ID
			list = append(list, back)
		}
	}
	return list
}

func TestSumsBalance(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := drawn(t)
		want := new(big.Int)
		for _, b := range list {
			want.Add(want, b.signed())
		}
		read := map[Format]func(string) (*big.Int, int, error){
			Beancount: readPostings, Hledger: readPostings, CSV: readColumn(1, -1), Xero: readColumn(1, 1), OFX: readOFX, JSON: readJSON,
		}
		for f, sum := range read {
			var out bytes.Buffer
			w, err := NewWriter(f, &out, october)
			for _, b := range list {
				err = errors.Join(err, w.Write(b))
			}
			if err = errors.Join(err, w.Close()); err != nil {
				t.Fatal(f, err)
			}
			got, count, err := sum(out.String())
			if err != nil || got.Cmp(want) != 0 || count != len(list) {
				t.Fatalf("%s: %v: sum %v of %d bookings, want %v of %d\n%s", f, err, got, count, want, len(list), out.String())
			}
		}
	})
}

// smallest reads 1.500000 as 1500000.
func smallest(text string) *big.Int {
	n, ok := new(big.Int).SetString(strings.Replace(text, ".", "", 1), 10)
	if _, fraction, _ := strings.Cut(text, "."); !ok || len(fraction) != 6 {
		panic("not an amount with 6 decimals: " + text)
	}
	return n
}

var posting = regexp.MustCompile(`^ +((?:Assets|Expenses|Equity)(?::[A-Z0-9][A-Za-z0-9-]*)+) +(-?[0-9.]+) USDC$`)

// readPostings adds up the wallets of a text in which each line is known. Each booking balances.
func readPostings(text string) (*big.Int, int, error) {
	wallets, all, count := new(big.Int), new(big.Int), 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		part := posting.FindStringSubmatch(line)
		switch {
		case part != nil:
			n := smallest(part[2])
			if all.Add(all, n); strings.HasPrefix(part[1], walletsRoot) {
				count++
				wallets.Add(wallets, n)
			}
		case line == "", strings.HasPrefix(line, ";"), strings.HasPrefix(line, "plugin "), strings.HasPrefix(line, "2026-1"),
			regexp.MustCompile(`^  [a-z-]+: "(\\.|[^"\\])*"$`).MatchString(line), regexp.MustCompile(`^    ; [a-z-]+: ?[^;,\[\]|]*$`).MatchString(line):
		default:
			return nil, 0, fmt.Errorf("a line that is none of the format: %q", line)
		}
	}
	if all.Sign() != 0 {
		return nil, 0, fmt.Errorf("postings do not balance: %v", all)
	}
	return wallets, count, nil
}

func readColumn(n int, sign int64) func(string) (*big.Int, int, error) {
	return func(text string) (*big.Int, int, error) {
		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		sum := new(big.Int)
		for _, row := range rows[min(1, len(rows)):] {
			sum.Add(sum, smallest(row[n]))
			for i, cell := range row {
				if i != n && cell != "" && strings.IndexAny(cell, "=+-@") == 0 {
					return nil, 0, fmt.Errorf("a formula: %q", cell)
				}
			}
		}
		return sum.Mul(sum, big.NewInt(sign)), len(rows) - 1, err
	}
}

func readOFX(text string) (*big.Int, int, error) {
	var file struct {
		Statements []struct {
			Amounts []string `xml:"STMTRS>BANKTRANLIST>STMTTRN>TRNAMT"`
			Names   []string `xml:"STMTRS>BANKTRANLIST>STMTTRN>NAME"`
			Memos   []string `xml:"STMTRS>BANKTRANLIST>STMTTRN>MEMO"`
			Balance string   `xml:"STMTRS>LEDGERBAL>BALAMT"`
		} `xml:"BANKMSGSRSV1>STMTTRNRS"`
	}
	if err := xml.Unmarshal([]byte(text), &file); err != nil {
		return nil, 0, err
	}
	sum, balances, count := new(big.Int), new(big.Int), 0
	for _, s := range file.Statements {
		for i, a := range s.Amounts {
			count++
			sum.Add(sum, smallest(a))
			if len([]rune(s.Names[i])) > ofxName || len([]rune(s.Memos[i])) > ofxMemo {
				return nil, 0, fmt.Errorf("too long: %q, %q", s.Names[i], s.Memos[i])
			}
		}
		balances.Add(balances, smallest(s.Balance))
	}
	if balances.Cmp(sum) != 0 {
		return nil, 0, fmt.Errorf("balances of %v, and bookings of %v", balances, sum)
	}
	return sum, count, nil
}

func readJSON(text string) (*big.Int, int, error) {
	var file struct {
		Bookings []Booking
		Count    int
		Change   map[string]string
	}
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		return nil, 0, err
	}
	sum := new(big.Int)
	for _, b := range file.Bookings {
		sum.Add(sum, b.signed())
	}
	if file.Count != len(file.Bookings) || file.Change["USDC"] != sum.String() {
		return nil, 0, fmt.Errorf("the end says %d and %v", file.Count, file.Change)
	}
	return sum, file.Count, nil
}

func TestMonth(t *testing.T) {
	t.Parallel()
	if r, err := Month("2026-10"); err != nil || r != october || r.String() != "2026-10" {
		t.Error(r, err)
	}
	for _, wrong := range []string{"", "2026", "2026-13", "2026-1", "26-10", "2026-10-01", "october"} {
		if r, err := Month(wrong); err == nil {
			t.Errorf("%q is %v", wrong, r)
		}
	}
	for at, in := range map[time.Time]bool{
		october.From: true, october.From.Add(-1): false, october.To: false, october.To.Add(-1): true,
	} {
		if october.Has(at) != in {
			t.Error(at, !in)
		}
	}
}
