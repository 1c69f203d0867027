package boltstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// inPlace is inFolder with the place of the file, at a time.
func inPlace(dir string, now time.Time) Options {
	o := at(inFolder(dir), now)
	o.Place = nil
	return o
}

// copyFolder copies a folder as cp -r does, while its purser runs or afterwards.
func copyFolder(t *testing.T, o Options) Options {
	t.Helper()
	to := o
	to.Path = filepath.Join(t.TempDir(), "purser.db")
	plainCopy(t, o.Path, to.Path)
	plainCopy(t, JournalPath(o.Path), JournalPath(to.Path))
	return to
}

// A copy of the whole folder is reconciled like a backup, because the other one may have paid since: once, whether it was
// copied while its purser ran or afterwards.
func TestCopiedFolder(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{true, false} {
		o := inPlace(t.TempDir(), noon)
		d := openIn(t, o)
		begun(t, d, "k")
		if !running {
			closed(t, d)
		}
		to := copyFolder(t, o)
		if !running {
			d = openIn(t, o)
		}
		lost := begun(t, d, "k") // the first one lives on

		copied := openIn(t, to)
		if p, err := copied.Payment(t.Context(), lost.ID); err == nil {
			t.Fatalf("the copy has %+v", p)
		}
		wantRefused(t, copied)
		if r := restoreOf(t, copied); r == nil || !r.Copied || r.Taken.After(noon) || r.Taken.IsZero() || r.From == "" {
			t.Fatalf("running %v: %+v", running, r)
		}
		if err := copied.EndReconciling(t.Context(), noon.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		closed(t, copied)
		copied = openIn(t, to)
		begun(t, copied, "k") // it stays reconciled
		closed(t, copied)
		if m := sound(t, to.Path).Backups; len(m) != 1 || !m[0].Copied || m[0].From == "" {
			t.Fatalf("%+v", m)
		}
		if r := restoreOf(t, d); r != nil {
			t.Fatalf("the first one is reconciled: %+v", r)
		}
	}
}

// Nothing that leaves the file itself in its place has a start reconciled: neither another path or host, nor a compaction.
// A copy that is compacted before purser opens it is noticed all the same.
func TestPlaceStays(t *testing.T) {
	t.Parallel()
	o := inPlace(t.TempDir(), noon)
	pays := func() {
		t.Helper()
		d := openIn(t, o)
		begun(t, d, "k")
		if r := restoreOf(t, d); r != nil {
			t.Fatalf("%+v", r)
		}
		closed(t, d)
	}
	pays()
	pays()
	folder := filepath.Dir(o.Path) + "-renamed"
	if err := os.Rename(filepath.Dir(o.Path), folder); err != nil {
		t.Fatal(err)
	}
	o.Path = filepath.Join(folder, "purser.db")
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	pays()
	if _, _, err := Compact(t.Context(), o.Path); err != nil {
		t.Fatal(err)
	}
	pays()
	o = copyFolder(t, o)
	if _, _, err := Compact(t.Context(), o.Path); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, openIn(t, o))
}

// An answer that a file system does not give makes no difference. The last one that it gave is remembered.
func TestPlaceThatIsNotKnown(t *testing.T) {
	t.Parallel()
	born, inode := Place{Born: noon, Inode: 1}, Place{Inode: 1}
	for _, c := range []struct {
		was, is Place
		differs bool
	}{
		{born, Place{Born: noon, Inode: 2}, false}, // numbers that change with each mount
		{born, Place{Born: noon.Add(1), Inode: 1}, true},
		{born, inode, false},
		{inode, Place{Born: noon, Inode: 2}, true},
		{inode, Place{Inode: 2}, true},
		{born, Place{}, false},
		{Place{}, born, false},
	} {
		if c.was.differs(c.is) != c.differs {
			t.Errorf("%+v and %+v: want %v", c.was, c.is, c.differs)
		}
	}
	o := inPlace(t.TempDir(), noon)
	for _, step := range []struct {
		place Place
		err   error
		copy  bool
	}{{place: inode}, {}, {err: errors.New("no such call")}, {place: born}, {place: Place{Inode: 2}, copy: true}} {
		o.Place = func(string) (Place, error) { return step.place, step.err }
		d := openIn(t, o)
		if r := restoreOf(t, d); (r != nil) != step.copy {
			t.Fatalf("%+v: %+v", step, r)
		}
		closed(t, d)
	}
}
