package boltstore

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// plainCopy copies the file as cp does.
func plainCopy(t testing.TB, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, fileMode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func closed(t testing.TB, d *DB) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// killed takes the place of a store by its files as they are at this moment, as after kill -9.
func killed(t testing.TB, d *DB) {
	t.Helper()
	now, place := d.path+".now", JournalPath(d.path)
	d.handle.RLock() // no checkpoint comes in between
	plainCopy(t, d.path, now)
	plainCopy(t, place, now+".journal")
	d.handle.RUnlock()
	closed(t, d)
	for from, to := range map[string]string{now: d.path, now + ".journal": place} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
}

// checkpointed writes a checkpoint.
func checkpointed(t *testing.T, d *DB) {
	t.Helper()
	tx, err := d.snapshot(t.Context())
	if err == nil {
		err = tx.Rollback()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A plain copy of the file that takes the place of a newer one is reconciled like a backup,
// however it was taken and however the newer one ended.
func TestOlderCopyInPlace(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(testing.TB, *DB){"closed": closed, "killed": killed} {
		for _, hot := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", copied while stopped", true: ", copied while running"}[hot], func(t *testing.T) {
				t.Parallel()
				o := at(inFolder(t.TempDir()), noon)
				older := filepath.Join(t.TempDir(), "copy.db")
				d := openIn(t, o)
				begun(t, d, "k")
				if hot {
					plainCopy(t, o.Path, older)
					checkpointed(t, d)
				} else {
					closed(t, d)
					plainCopy(t, o.Path, older)
					d = openIn(t, o)
				}
				lost := begun(t, d, "k")
				end(t, d)
				plainCopy(t, older, o.Path)

				o = at(o, noon.Add(time.Hour))
				for range 2 { // also when it is opened again
					d = openIn(t, o)
					if p, err := d.Payment(t.Context(), lost.ID); err == nil {
						t.Fatalf("the copy has the payment: %+v", p)
					}
					wantRefused(t, d)
					if r := restoreOf(t, d); r == nil || r.Taken.After(noon) || r.Taken.IsZero() || !r.At.Equal(noon.Add(time.Hour)) {
						t.Fatalf("%+v", r)
					}
					closed(t, d)
				}
				if m := sound(t, o.Path).Backups; len(m) != 1 || !m[0].Copied {
					t.Fatalf("%+v", m)
				}
				d = openIn(t, o)
				if err := d.EndReconciling(t.Context(), noon.Add(2*time.Hour)); err != nil {
					t.Fatal(err)
				}
				begun(t, d, "k")
				end(t, d)
				begun(t, openIn(t, o), "k") // it stays reconciled
			})
		}
	}
}

// A store that was closed cleanly needs no journal, and no journal makes it an older copy but its
// own of a later time.
func TestNoOlderCopy(t *testing.T) {
	t.Parallel()
	pays := func(t *testing.T, o Options) {
		t.Helper()
		d := openIn(t, o)
		begun(t, d, "k")
		if r := restoreOf(t, d); r != nil {
			t.Fatalf("%+v", r)
		}
		closed(t, d)
	}
	for name, change := range map[string]func(t *testing.T, o Options) Options{
		"an older journal": func(t *testing.T, o Options) Options {
			plainCopy(t, JournalPath(o.Path), o.Path+".before")
			pays(t, o)
			plainCopy(t, o.Path+".before", JournalPath(o.Path))
			return o
		},
		"no journal": func(t *testing.T, o Options) Options {
			if err := os.Remove(JournalPath(o.Path)); err != nil {
				t.Fatal(err)
			}
			return o
		},
		"compacted": func(t *testing.T, o Options) Options {
			for range 2 {
				if _, _, err := Compact(t.Context(), o.Path); err != nil {
					t.Fatal(err)
				}
			}
			return o
		},
		"moved": func(t *testing.T, o Options) Options {
			to := inFolder(t.TempDir())
			plainCopy(t, o.Path, to.Path)
			return to
		},
		"another store's journal": func(t *testing.T, o Options) Options {
			other := inFolder(t.TempDir())
			for range 5 {
				pays(t, other)
			}
			plainCopy(t, JournalPath(other.Path), JournalPath(o.Path))
			return o
		},
		"no journal that can be read": func(t *testing.T, o Options) Options {
			if err := os.WriteFile(JournalPath(o.Path), []byte("purser"), fileMode); err != nil {
				t.Fatal(err)
			}
			return o
		},
		"the same file again": func(t *testing.T, o Options) Options {
			plainCopy(t, o.Path, o.Path+".same")
			plainCopy(t, o.Path+".same", o.Path)
			return o
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := inFolder(t.TempDir())
			pays(t, o)
			pays(t, o)
			o = change(t, o)
			pays(t, o)
			pays(t, o)
		})
	}
}

// Copies from before a compaction are older than the file that was compacted.
func TestOlderCopyThanACompactedFile(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	for range 10 {
		begun(t, d, "k")
	}
	closed(t, d)
	plainCopy(t, o.Path, o.Path+".older")
	if _, _, err := Compact(t.Context(), o.Path); err != nil {
		t.Fatal(err)
	}
	d = openIn(t, o)
	begun(t, d, "k")
	closed(t, d)
	plainCopy(t, o.Path+".older", o.Path)
	wantRefused(t, openIn(t, o))
}

// A backup that takes the place of the store says more about itself than the journal does.
func TestBackupInPlace(t *testing.T) {
	t.Parallel()
	o := at(inFolder(t.TempDir()), noon)
	d := openIn(t, o)
	begun(t, d, "k")
	block := &Block{Network: "base", Genesis: "0x1", Number: 100, Hash: "0x64", Time: noon}
	backup := backedUp(t, d, Mark{At: noon.Add(time.Minute), Block: block})
	begun(t, d, "k")
	closed(t, d)
	plainCopy(t, backup.Path, o.Path)
	d = openIn(t, o)
	wantRefused(t, d)
	if r := restoreOf(t, d); r.Block == nil || *r.Block != *block || !r.Taken.Equal(noon.Add(time.Minute)) {
		t.Fatalf("%+v", r)
	}
	closed(t, d)
	if m := sound(t, o.Path).Backups; len(m) != 1 || m[0].Copied {
		t.Fatalf("%+v", m)
	}
}
