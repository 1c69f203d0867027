package ledgers

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/testing/needed"
)

var (
	payments = flag.Int("ledgers.payments", 2000, "payments to export")
	keep     = flag.String("ledgers.keep", "", "folder that keeps the exported files")
)

// maxExport bounds the memory of `purser export`, in bytes, however many payments there are.
const maxExport = 200 << 20

// shelf is a folder of exports of one long history.
type shelf struct {
	t   *testing.T
	dir string
	// sums holds the balance of each account in the smallest unit.
	sums     map[string]*big.Int
	bookings int
}

// TestProgramsReadAnExport has each program read an export and compares the balance of every account with
// that of the JSON.
func TestProgramsReadAnExport(t *testing.T) {
	t.Parallel()
	python, err := filepath.Abs("../.venv/bin/python3")
	if err != nil {
		t.Fatal(err)
	}
	s := newShelf(t)
	t.Run("hledger", func(t *testing.T) {
		program := needed.Program(t, "Debian: package hledger", "hledger")
		s.compare(t, s.command(t, program, "-f", "october.journal", "balance", "--flat", "--no-total", "--layout=bare", "--output-format=csv"), readBareCSV)
		s.command(t, program, "-f", "october.journal", "check", "ordereddates")
	})
	t.Run("ledger", func(t *testing.T) {
		program := needed.Program(t, "Debian: package ledger", "ledger")
		// Each posting on a line, because sums of Ledger are rounded for people.
		text := s.command(t, program, "-f", "october.ledger", "--no-total", "--flat", "balance", "--balance-format", `%(account)|%(quantity(scrub(display_total)))\n`)
		s.compare(t, text, readPipes)
	})
	t.Run("beancount", func(t *testing.T) {
		needed.File(t, "`make e2e-deps` installs Beancount from a Python package index", filepath.Join(filepath.Dir(python), "bean-check"))
		s.compare(t, s.command(t, python, "-c", readBeancount, "october.beancount"), readPipes)
	})
	t.Run("ofx", func(t *testing.T) {
		needed.File(t, "`make e2e-deps` installs ofxtools from a Python package index", filepath.Join(filepath.Dir(python), "ofxget"))
		text := strings.Fields(s.command(t, python, "-c", readOFX, "october.ofx"))
		wallets := new(big.Int)
		for account, sum := range s.sums {
			if strings.HasPrefix(account, "Assets:") {
				wallets.Add(wallets, sum)
			}
		}
		want := []string{strconv.Itoa(s.bookings), strconv.Itoa(s.bookings), wallets.String(), wallets.String()}
		if !slices.Equal(text, want) {
			t.Errorf("transactions, ids, sum and balance are %v, want %v", text, want)
		}
	})
}

// readBeancount prints the accounts of a file that is loaded without an error. A file that includes it twice
// has two of each; that tests that accounts need no opening.
const readBeancount = `
import sys
from beancount import loader
from beancount.core import data, realization
entries, errors, _ = loader.load_file(sys.argv[1])
if errors:
    sys.exit(str(errors[:3]))
sums = {}
for e in entries:
    if isinstance(e, data.Transaction):
        for p in e.postings:
            assert p.units.currency == "USDC"
            sums[p.account] = sums.get(p.account, 0) + p.units.number
for account, sum in sums.items():
    print(f"{account}|{sum:f}")
`

const readOFX = `
import sys
from ofxtools.Parser import OFXTree
p = OFXTree()
p.parse(sys.argv[1])
o = p.convert()
all = [t for s in o.statements for t in s.transactions]
print(len(all), len({t.fitid for t in all}), int(sum(t.trnamt for t in all) * 10**6), int(sum(s.ledgerbal.balamt for s in o.statements) * 10**6))
`

func newShelf(t *testing.T) *shelf {
	t.Helper()
	dir := t.TempDir()
	if *keep != "" {
		if err := os.MkdirAll(*keep, 0o700); err != nil {
			t.Fatal(err)
		}
		dir = *keep
	}
	s := &shelf{t: t, dir: dir, sums: map[string]*big.Int{}}
	p := process.NewPurser(t, process.Program(t, process.Plain), filepath.Join(t.TempDir(), "data"))
	p.Start(t)
	var keys []string
	for _, label := range []string{"research", "=cmd|' /C calc'!A0;\n [2026-01-01]", "研究"} {
		out, err := p.Command(t, "keys", "create", "--label", label, "--json")
		var made struct{ ID string }
		if err != nil || json.Unmarshal([]byte(out), &made) != nil || made.ID == "" {
			t.Fatalf("%v: %s", err, out)
		}
		keys = append(keys, made.ID)
	}
	if err := p.Stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	fill := exec.CommandContext(t.Context(), process.Build(t, "fill", "./e2e/dashboard/fill"), append([]string{p.Data, strconv.Itoa(*payments)}, keys...)...)
	if out, err := fill.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.Start(t)
	for format, name := range map[string]string{
		"json": "october.json", "hledger": "october.journal", "ledger": "october.ledger", "beancount": "october.beancount", "ofx": "october.ofx",
		"xero": "xero.csv", "csv": "october.csv",
	} {
		began := time.Now()
		cmd := exec.CommandContext(t.Context(), p.Binary, "export", "--format", format, "--output", filepath.Join(dir, name), "--force")
		cmd.Env = p.Environment()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", format, err, out)
		}
		used := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
		t.Logf("%s: %s, %d MB of memory", format, time.Since(began).Round(time.Millisecond), used>>20)
		if used > maxExport {
			t.Errorf("%s took %d MB of memory", format, used>>20)
		}
	}
	p.End(t)
	s.read()
	return s
}

// read adds up the accounts of the journal, and checks them with the JSON.
func (s *shelf) read() {
	s.t.Helper()
	var file struct {
		Bookings []json.RawMessage
		Change   map[string]string
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "october.json"))
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if s.bookings = len(file.Bookings); s.bookings < *payments {
		s.t.Fatalf("%d bookings of %d payments", s.bookings, *payments)
	}
	text, err = os.ReadFile(filepath.Join(s.dir, "october.journal"))
	if err != nil {
		s.t.Fatal(err)
	}
	wallets, zero := new(big.Int), new(big.Int)
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) != 3 || fields[2] != "USDC" || fields[0] == ";" {
			continue
		}
		n := smallest(s.t, fields[1])
		if zero.Add(zero, n); strings.HasPrefix(fields[0], "Assets:") {
			wallets.Add(wallets, n)
		}
		if s.sums[fields[0]] == nil {
			s.sums[fields[0]] = new(big.Int)
		}
		s.sums[fields[0]].Add(s.sums[fields[0]], n)
	}
	if zero.Sign() != 0 || wallets.String() != file.Change["USDC"] || len(s.sums) < 5 {
		s.t.Fatalf("postings sum up to %v, wallets to %v, and the JSON says %v; %d accounts", zero, wallets, file.Change, len(s.sums))
	}
}

// smallest reads an amount of USDC with at most 6 decimals as an integer.
func smallest(t *testing.T, text string) *big.Int {
	t.Helper()
	whole, fraction, _ := strings.Cut(strings.ReplaceAll(text, ",", ""), ".")
	if trimmed := strings.TrimRight(fraction, "0"); len(trimmed) <= 6 {
		fraction = trimmed + strings.Repeat("0", 6-len(trimmed))
	}
	n, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok || len(fraction) != 6 {
		t.Fatalf("%q is not an amount of USDC", text)
	}
	if strings.HasPrefix(whole, "-") && n.Sign() > 0 {
		n.Neg(n)
	}
	return n
}

// command runs a program in the folder of the exports.
func (s *shelf) command(t *testing.T, program string, arguments ...string) string {
	t.Helper()
	began := time.Now()
	cmd := exec.CommandContext(t.Context(), program, arguments...)
	cmd.Dir, cmd.Env = s.dir, append(process.Environment(), "LC_ALL=C.UTF-8")
	out, err := cmd.Output()
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		t.Fatalf("%s: %v: %.2000s", filepath.Base(program), err, failed.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s read it in %s", filepath.Base(program), time.Since(began).Round(time.Millisecond))
	return string(out)
}

// compare compares the balances of all accounts.
func (s *shelf) compare(t *testing.T, text string, read func(string) (map[string]string, error)) {
	t.Helper()
	got, err := read(text)
	if err != nil {
		t.Fatal(err)
	}
	for account, want := range s.sums {
		if smallest(t, got[account]).Cmp(want) != 0 {
			t.Errorf("%s has %s, want %v of the smallest unit", account, got[account], want)
		}
	}
	if len(got) != len(s.sums) {
		t.Errorf("%d accounts, want %d", len(got), len(s.sums))
	}
}

// readBareCSV reads account, commodity and balance.
func readBareCSV(text string) (map[string]string, error) {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	all := map[string]string{}
	for _, row := range rows[min(1, len(rows)):] {
		all[row[0]] = row[len(row)-1]
	}
	return all, err
}

// readPipes reads lines of account|balance.
func readPipes(text string) (map[string]string, error) {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		account, balance, ok := strings.Cut(strings.TrimSpace(line), "|")
		if !ok {
			return nil, fmt.Errorf("line %q", line)
		}
		all[account] = balance
	}
	return all, nil
}
