//go:build linux

package pgstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/internal/testing/needed"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
)

// smallDisk makes a database on a disk of its own, and returns that disk's folder.
func smallDisk(t *testing.T, server *pgtest.Server, megabytes string) (databaseURL, disk string) {
	t.Helper()
	disk = filepath.Join(server.Host(), "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size="+megabytes+"m"); err != nil {
		needed.Missing(t, "a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	of, err := os.Stat(server.Host())
	if err != nil {
		t.Fatal(err)
	}
	tables := filepath.Join(disk, "tables")
	owner := of.Sys().(*syscall.Stat_t)
	if err := errors.Join(os.Chmod(disk, 0o755), os.Mkdir(tables, 0o700), os.Chown(tables, int(owner.Uid), int(owner.Gid))); err != nil { //nolint:gosec // a test's
		t.Fatal(err)
	}
	server.Exec(t, `CREATE TABLESPACE small LOCATION '`+tables+`'`)
	server.Exec(t, `CREATE DATABASE small TABLESPACE small`)
	return strings.Replace(server.URL, "/postgres?", "/small?", 1), disk
}

// fillDisk takes what is free of a disk.
func fillDisk(t *testing.T, disk string) (free func()) {
	t.Helper()
	filler := filepath.Join(disk, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.Copy(f, rand.Reader); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	_ = f.Close() // its end does not matter
	return func() {
		if err := os.Remove(filler); err != nil {
			t.Error(err)
		}
	}
}

// A small write fits into a page that is there, and the next batch finds no room for another page. The outage lasts as
// long as the disk is full all the same, and health says so at each look.
func TestFullDiskDoesNotFlap(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url, disk := smallDisk(t, server, "64")
	d := node(t, pgstore.Options{URL: url, Dir: t.TempDir()})
	k := keyOn(t, d)
	// The smallest table has room in its pages, and the others have none.
	small := connect(t, url)
	for _, sql := range []string{
		`INSERT INTO operations (id, void) SELECT gen_random_uuid(), true FROM generate_series(1, 5000)`,
		`DELETE FROM operations WHERE void AND ctid < (SELECT max(ctid) FROM operations)`, // the node asks for its own
		`VACUUM operations`,
	} {
		if _, err := small.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	free := fillDisk(t, disk)
	makes := func() error { _, err := d.Begin(t.Context(), callOf(k, d.Now())); return err }
	wait(t, "a full disk", func() bool { return makes() != nil })
	// Nothing waits to be written, and small writes succeed meanwhile.
	for range 100 {
		if _, err := small.Exec(t.Context(), `INSERT INTO operations (id) VALUES (gen_random_uuid())`); err != nil {
			t.Fatalf("the disk has no room for small writes either, so this shows nothing: %v", err)
		}
		if err := d.Health(t.Context()); err == nil || d.Stats().Down != pgstore.DownFull {
			t.Fatalf("the disk is full, and health says %v, the cause is %q", err, d.Stats().Down)
		}
		if err := makes(); !errors.Is(err, pay.ErrUnavailable) {
			t.Fatalf("a payment was made: %v", err)
		}
		time.Sleep(30 * time.Millisecond) // longer in all than the pause before the node looks again
	}
	free()
	wait(t, "writing again", func() bool { return d.Stats().Down == "" })
	pays(t, d, k, 1)
}

// connect opens a connection that ends with the test.
func connect(t *testing.T, databaseURL string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}
