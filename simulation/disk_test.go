package simulation

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// page is the unit in which the database is written.
const page = 4096

// image holds what a disk has of one store.
type image struct {
	database, journal []byte
	restored          bool // it comes from a backup
}

const (
	databaseName = "purser.db"
	journalName  = "purser.journal"
)

// imageOf reads the files of a folder.
func imageOf(t testing.TB, dir string) (i image) {
	t.Helper()
	for name, to := range map[string]*[]byte{databaseName: &i.database, journalName: &i.journal} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		*to = text
	}
	return i
}

// put writes the files to a new folder.
func (i image) put(t testing.TB, dir string) {
	t.Helper()
	for name, text := range map[string][]byte{databaseName: i.database, journalName: i.journal} {
		if text == nil {
			continue // a backup is one file
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// torn returns what a disk may have if the power fails while it goes from one image to the next one: of what was
// written and not flushed, any part. The journal is flushed before the database is written, and the pages of the
// database before the two that name them. whole reports that all of it is there.
func torn(before, after image, luck *rand.Rand) (i image, whole bool) {
	i = image{database: bytes.Clone(before.database), journal: bytes.Clone(before.journal)}
	if !bytes.Equal(before.database, after.database) {
		i.journal = bytes.Clone(after.journal)
		i.database = append(i.database, make([]byte, max(0, len(after.database)-len(i.database)))...)
		all := luck.IntN(3) == 0
		for at := 2 * page; at < len(after.database); at += page {
			if all || luck.IntN(2) == 0 {
				copy(i.database[at:], after.database[at:min(at+page, len(after.database))])
			}
		}
		if all && luck.IntN(2) == 0 {
			copy(i.database[:2*page], after.database[:2*page])
			return i, true
		}
		return i, false
	}
	first := 0
	for first < len(after.journal) && first < len(before.journal) && before.journal[first] == after.journal[first] {
		first++
	}
	last := len(after.journal)
	for last > first && last <= len(before.journal) && before.journal[last-1] == after.journal[last-1] {
		last--
	}
	i.journal = append(i.journal, make([]byte, max(0, len(after.journal)-len(i.journal)))...)
	cut := last
	if last > first && luck.IntN(4) > 0 {
		cut = first + luck.IntN(last-first)
	}
	copy(i.journal[first:cut], after.journal[first:cut])
	return i, cut == last
}
