package boltstore

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
)

// A copy of the whole folder has the journal that belongs to its database, so the journal tells nothing. But it is another
// file than the one that was open last. It is treated as a restored backup, because the other one may have paid since.

// placeKey names the Place of the last opening in the meta bucket, as JSON.
var placeKey = []byte("place")

// Place identifies a database among files. A copy has another place. A file that is renamed, or whose volume is mounted
// elsewhere, keeps its place: neither path, host nor device is compared. A clone of a disk keeps it, too.
type Place struct {
	// Born is when the file was created, which no program can choose. Zero where the file system does not tell.
	Born time.Time `json:"born,omitzero"`
	// Inode is the number of the file, or 0 where numbers do not last. It counts where one of two times is not known.
	Inode uint64 `json:"inode,omitempty"`
	// Path and Host tell people where that was.
	Path string `json:"path,omitempty"`
	Host string `json:"host,omitempty"`
}

// PlaceOf returns the place of a file.
func PlaceOf(path string) (p Place, err error) {
	if p, err = placeOf(path); err != nil {
		return p, fmt.Errorf("place of %s: %w", path, err)
	}
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	host, _ := os.Hostname() // for people only
	p.Path, p.Host = path, host
	return p, nil
}

// differs reports that two places are of two files. Where that cannot be told they are of one: a file system whose files
// change their numbers must not have each start reconciled.
func (p Place) differs(other Place) bool {
	if !p.Born.IsZero() && !other.Born.IsZero() {
		return !p.Born.Equal(other.Born)
	}
	return p.Inode != 0 && other.Inode != 0 && p.Inode != other.Inode
}

func (p Place) known() bool { return !p.Born.IsZero() || p.Inode != 0 }

func (p Place) String() string {
	return cmp.Or(p.Path, "another folder") + " on " + cmp.Or(p.Host, "another machine")
}

// settle notes the place of an opening. It returns the last one if that is another.
func (d *DB) settle(tx *bbolt.Tx) (was *Place, err error) {
	is, err := d.place(d.path)
	if err != nil {
		d.log.Warn("store: a copy of the folder would not be noticed", "error", err)
		return nil, nil //nolint:nilerr // a start does not need it
	}
	was, err = metaIn[Place](tx, placeKey)
	if err != nil || !is.known() && was != nil {
		return nil, err
	}
	if err := putJSON(tx.Bucket(metaBucket).Put, map[string]any{string(placeKey): is}); err != nil {
		return nil, err
	}
	if was == nil || !was.differs(is) {
		return nil, nil
	}
	return was, nil
}
