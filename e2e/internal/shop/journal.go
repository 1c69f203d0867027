package shop

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/pay"
)

// Journal reads all payments of a store.
func Journal(t testing.TB, store pay.Store) (rows []*pay.Payment) {
	t.Helper()
	const page = 500
	for q := (pay.LabelQuery{Limit: page}); ; {
		list, err := store.AllPayments(Bounded(t), q)
		if err != nil {
			t.Fatal(err)
		}
		if rows = append(rows, list...); len(list) < page {
			return rows
		}
		q.Before = list[page-1].ID
	}
}

// FileJournal reads the payments in a copy of the files of a purser that is dead. The files stay as they were left, and must
// be sound.
func FileJournal(t testing.TB, file string) (rows []*pay.Payment) {
	t.Helper()
	ctx := Bounded(t)
	report, err := boltstore.CheckFile(ctx, file, MasterKey())
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range report.Faults {
		t.Errorf("the file of a killed purser: %s", fault)
	}
	path := filepath.Join(t.TempDir(), "purser.db")
	for to, from := range map[string]string{path: file, boltstore.JournalPath(path): boltstore.JournalPath(file)} {
		if err := copied(to, from); err != nil {
			t.Fatal(err)
		}
	}
	store, err := boltstore.Open(ctx, boltstore.Options{
		Path: path, MasterKey: MasterKey(), Place: func(string) (boltstore.Place, error) { return boltstore.Place{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	return Journal(t, store)
}

// copied copies a file. Blocks of zeros become a hole: bolt's file is nearly all hole.
func copied(to, from string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	into, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, into.Close()) }()
	zeros := make([]byte, 64<<10)
	block := make([]byte, len(zeros))
	for at := int64(0); ; {
		n, err := io.ReadFull(source, block)
		if n > 0 && !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := into.WriteAt(block[:n], at); err != nil {
				return err
			}
		}
		if at += int64(n); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return into.Truncate(at)
		}
		if err != nil {
			return err
		}
	}
}
