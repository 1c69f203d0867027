package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pgstore"
)

const checkHelp = `
Checks whether the books agree with themselves: every index with the payments, every
counter with what living payments reserve, every spend event with its settled payment,
keys, wallets and their secrets. Nothing is changed.

Without FILE, --data-dir and --database it asks a running purser, which checks a copy that
it makes beside its database. PostgreSQL is read as of one moment, and payments go on. With
--data-dir the database in that folder is checked, and with FILE that one, which may be a
backup; no purser may have it open. The structure of the file is then checked as well. With
--database the one of DATABASE_URL or DATABASE_URL_FILE is checked, whether or not nodes use
it. Secrets are tried if the master key is at hand (PURSER_MASTER_KEY,
PURSER_MASTER_KEY_FILE, or master.key in the same folder).

The exit status is 0 if nothing is wrong, else 1.

    $ purser check
    $ purser check books.db
    $ purser check --database`

func (env *Env) checkCommand(c *cobra.Command) {
	adminFlag(c)
	dir := env.dataDirFlag(c)
	database := c.Flags().Bool("database", false, "check the PostgreSQL of "+databaseURLVariable+", without a running purser")
	asJSON := newJSONFlag(c, printsJSON)
	c.Args = cobra.MaximumNArgs(1)
	Run(c, func(c *cobra.Command, args []string) error {
		path, err := env.databasePath(*dir, args)
		if err != nil {
			return err
		}
		var answer CheckAnswer
		switch {
		case *database && len(args) > 0:
			return errors.New("FILE and --database name two databases: keep one")
		case *database:
			answer, err = env.checkPostgres(c.Context(), path)
		case len(args) == 0 && !c.Flags().Changed("data-dir"):
			err = env.checkRunning(c, &answer)
		default:
			answer.Path = path
			answer.Report, err = boltstore.CheckFile(c.Context(), path, env.masterKeyBeside(path))
		}
		if err == nil {
			err = show(c.OutOrStdout(), *asJSON, answer, writeCheck)
		}
		if err == nil && len(answer.Faults) > 0 {
			err = errors.New("the database has faults: keep it as it is, with a copy, until they are understood")
		}
		return err
	})
}

func (env *Env) checkRunning(c *cobra.Command, answer *CheckAnswer) error {
	client, err := env.adminOf(c)
	if err != nil {
		return err
	}
	client.client.Timeout = 0 // it takes as long as it takes
	if err := client.call(c.Context(), http.MethodPost, "/purser/check", struct{}{}, answer); err != nil {
		return fmt.Errorf("%w; the database of a stopped purser is checked with --data-dir, or with --database if it is PostgreSQL", err)
	}
	return nil
}

// checkPostgres checks the database that the environment names. path is where a file of bbolt would
// be, with the master key beside it.
func (env *Env) checkPostgres(ctx context.Context, path string) (answer CheckAnswer, err error) {
	address, err := env.databaseURL()
	if err != nil {
		return answer, err
	}
	report, err := pgstore.ExamineDatabase(ctx, pgstore.Options{URL: address, MasterKey: env.masterKeyBeside(path)})
	if err != nil {
		return answer, err
	}
	text, err := json.Marshal(report)
	if err != nil {
		return answer, err
	}
	return answer, json.Unmarshal(text, &answer) // the two reports have the same names
}

func (env *Env) dataDirFlag(c *cobra.Command) *string {
	return c.Flags().String("data-dir", "",
		"data directory of a stopped purser (default: "+dataDirVariable+", else "+env.defaultDataDir()+")")
}

func (env *Env) databasePath(dir string, args []string) (string, error) {
	path := filepath.Join(cmp.Or(dir, env.Getenv(dataDirVariable), env.defaultDataDir()), databaseName)
	switch {
	case len(args) > 0 && dir != "":
		return "", errors.New("FILE and --data-dir name two databases: keep one")
	case len(args) > 0:
		path = args[0]
	case dir == "":
		path = cmp.Or(env.Getenv(boltPathVariable), path)
	}
	return filepath.Abs(env.path(path))
}

// masterKeyBeside is the master key if it is at hand, else nil.
func (env *Env) masterKeyBeside(path string) vault.Source {
	value, file := env.Getenv(masterKeyVariable), env.Getenv(masterKeyFileVariable)
	generated := filepath.Join(filepath.Dir(path), masterKeyName)
	if _, err := os.Stat(generated); err != nil && value == "" && file == "" {
		return nil
	}
	return func(fresh bool) (vault.MasterKey, error) {
		value, err := env.secret(masterKeyVariable)
		if err != nil {
			return vault.MasterKey{}, err
		}
		return vault.From(value, file, generated)(fresh)
	}
}

func writeCheck(t *table, a CheckAnswer) {
	t.row("database", a.Path)
	t.row("size", size(a.Size))
	t.row("schema", strconv.Itoa(a.Schema))
	for _, m := range a.Backups {
		t.row("backup", taken(m)+since(m))
	}
	t.some("removed", removedText(a.Removed))
	t.row("payments", a.payments())
	t.row("spend events", strconv.Itoa(a.Events))
	t.row("keys", strconv.Itoa(a.Keys))
	t.row("wallets", strconv.Itoa(a.Wallets))
	if !a.Secrets {
		t.row("secrets", "not tried: the master key is not here")
	}
	switch n := len(a.Faults); {
	case n == 0:
		t.row("faults", "none")
	case a.More:
		t.row("faults", "more than "+strconv.Itoa(n))
	default:
		t.row("faults", strconv.Itoa(n))
	}
	for _, fault := range a.Faults {
		fmt.Fprintf(t, "  %s\n", label(fault))
	}
}

func (a CheckAnswer) payments() string {
	var parts []string
	for _, name := range adminapi.PaymentLabels {
		if n := a.Labels[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, name))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprint(a.Payments)
	}
	return fmt.Sprintf("%d (%s)", a.Payments, strings.Join(parts, ", "))
}

// removedText says which payments may be missing because they were removed.
func removedText(before time.Time) string {
	if before.IsZero() {
		return ""
	}
	return "payments that were closed before " + when(before)
}

func size(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

func since(m boltstore.Mark) string {
	switch {
	case m.RestoredAt.IsZero():
		return ""
	case m.ReconciledAt.IsZero():
		return ", restored " + when(m.RestoredAt) + ", not reconciled yet"
	case m.Accepted != nil:
		return fmt.Sprintf(", restored %s, payments resumed %s by the word of %s",
			when(m.RestoredAt), when(m.ReconciledAt), cmp.Or(m.Accepted.By, "somebody"))
	}
	return fmt.Sprintf(", restored %s, reconciled %s, %d payments booked",
		when(m.RestoredAt), when(m.ReconciledAt), m.Booked)
}

func taken(m boltstore.Mark) string {
	switch {
	case m.Copied:
		if m.From != "" {
			return "none, but a copy of the database of " + m.From + ", last written after " + when(m.At)
		}
		return "none, but a copy of the database, last written after " + when(m.At)
	case m.Block == nil:
		return "taken " + when(m.At) + ", at no known block"
	}
	return fmt.Sprintf("taken %s, at block %d of %s", when(m.At), m.Block.Number, m.Block.Network)
}

const backupHelp = `
Takes a backup of a running purser's database and writes it to FILE, readable for you only.
Purser goes on paying meanwhile: it copies its database beside it first, which takes as much
disk space as the database has. The backup is checked before it gets its name.

The backup knows all payments up to the moment that it was taken, and with an RPC the
block of the chain then. A database that is restored from it does not know what was paid
later: purser reads that from the chain before it pays again (see purser reconcile). Use
the newest one, and only when the database itself is lost.

The master key is not in the backup, and without it the wallets in the backup cannot be
opened. The command says where it is: keep a copy of it elsewhere than the backups.

    $ purser backup books.db`

func (env *Env) backupCommand(c *cobra.Command) {
	a := env.asks(c)
	force := c.Flags().Bool("force", false, "replace FILE if it is there")
	c.Args = cobra.ExactArgs(1)
	a.runs(func(args []string) error {
		path, err := filepath.Abs(env.path(args[0]))
		if err != nil {
			return err
		}
		if err := mayWrite(path, *force); err != nil {
			return err
		}
		a.client.client.Timeout = 0 // it takes as long as it takes
		return takeBackup(c, a.client, path, *force)
	})
}

// mayWrite refuses to write over a file unless it is meant to be, and over the database of a
// running purser, its own or another, in any case.
func mayWrite(path string, force bool) error {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !force:
		return fmt.Errorf("%s is there already: --force replaces it", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", path)
	}
	used, err := boltstore.InUse(path)
	if used {
		return fmt.Errorf("%s is the database of a running purser", path)
	}
	return err
}

// writeWhole writes a file that only its owner may read, whole or not at all. It replaces one if
// force says so. write gets the file, and the name that it has meanwhile.
func writeWhole(ctx context.Context, path string, force bool, write func(ctx context.Context, name string, file io.Writer) error) error {
	// So that what was begun is removed. A second signal does not wait for that.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	temp, err := os.CreateTemp(filepath.Dir(path), ".purser-new-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // gone already when all went well
	err = write(ctx, temp.Name(), temp)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); ctx.Err() != nil {
		err = ctx.Err()
	}
	if err == nil {
		err = mayWrite(path, force)
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return err
	}
	return vault.SyncDir(filepath.Dir(path))
}

// takeBackup gets a backup and puts it where it belongs, whole or not at all.
func takeBackup(c *cobra.Command, client *adminClient, path string, force bool) error {
	var header http.Header
	var report boltstore.Report
	err := writeWhole(c.Context(), path, force, func(ctx context.Context, name string, file io.Writer) (err error) {
		if header, err = fetchBackup(ctx, c, client, file); err != nil {
			return err
		}
		if report, err = boltstore.CheckFile(ctx, name, nil); err == nil {
			err = report.Err()
		}
		if err != nil {
			return fmt.Errorf("what was received is not sound: %w", err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("no backup was made: %w", err)
	}
	if reason := header.Get(adminapi.NoBlockHeader); reason != "" {
		say(c, "the backup has no block number: %s", reason)
	}
	a, out := CheckAnswer{Report: report}, c.OutOrStdout()
	fmt.Fprintf(out, "%s: %s, schema %d, checked: payments %s, spend events %d, keys %d, wallets %d\n",
		path, size(a.Size), a.Schema, a.payments(), a.Events, a.Keys, a.Wallets)
	if n := len(a.Backups); n > 0 {
		_, _ = fmt.Fprintln(out, taken(a.Backups[n-1]))
	}
	_, err = fmt.Fprintf(out,
		"The master key is not in it, and the wallets are lost without it: keep a copy of %s elsewhere.\n",
		label(header.Get(adminapi.MasterKeyHeader)))
	return err
}

const (
	progressEvery = 2 * time.Second // between the lines that tell how far a large backup is
	receivedPart  = 1 << 20
	largeBackup   = 64 << 20
)

func fetchBackup(ctx context.Context, c *cobra.Command, client *adminClient, file io.Writer) (http.Header, error) {
	resp, err := client.send(ctx, http.MethodPost, "/purser/backup", struct{}{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.ContentLength < 0 {
		return nil, fmt.Errorf("%s answered without a length: is it a purser of this version?", client.address)
	}
	told := time.Now()
	for got := int64(0); got < resp.ContentLength; {
		n, err := io.CopyN(file, resp.Body, min(receivedPart, resp.ContentLength-got))
		if got += n; err != nil {
			return nil, fmt.Errorf("cut off after %s of %s: %w", size(got), size(resp.ContentLength), err)
		}
		if resp.ContentLength >= largeBackup && time.Since(told) >= progressEvery {
			told = time.Now()
			say(c, "%s of %s", size(got), size(resp.ContentLength))
		}
	}
	return resp.Header, nil
}

const compactHelp = `
Rewrites the database of a stopped purser without the space that is free in it, and prints
its size before and after. The database is checked first; the new file takes its place,
with the same permissions, only after it was compared with it. Whenever the command is
stopped, the database is the old one or the new one.

    $ purser compact --data-dir ./purser-data`

func (env *Env) compactCommand(c *cobra.Command) {
	dir := env.dataDirFlag(c)
	dry := dryRunFlag(c)
	c.Args = cobra.MaximumNArgs(1)
	Run(c, func(c *cobra.Command, args []string) error {
		path, err := env.databasePath(*dir, args)
		if err != nil {
			return err
		}
		if dry.on {
			dry.would = "check " + path + ", and rewrite it without the space that is free in it"
			return dry.tellFile(c, path)
		}
		before, after, err := boltstore.Compact(c.Context(), path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %s before, %s after\n", path, size(before), size(after))
		return err
	})
}

// CheckAnswer answers POST /purser/check.
type CheckAnswer struct {
	Path string `json:"path"`
	boltstore.Report
}
