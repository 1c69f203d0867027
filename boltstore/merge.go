package boltstore

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"
)

// idIndex names the keys of an index with one prefix. An id follows the prefix.
type idIndex struct{ bucket, prefix []byte }

// merge walks the ids of several API keys in their indexes together, newest first.
type merge struct {
	tx   *bbolt.Tx
	runs []*keyRun
	rows int // looked at
}

// keyRun holds the rest of the ids of one API key. An id is listed if all its indexes have it.
type keyRun struct {
	keyID   string
	indexes []idIndex
	cursors []*bbolt.Cursor
	// id is the newest candidate; sure reports that all indexes have it.
	id   []byte
	sure bool
}

// begin adds the ids of an API key below one ("": all).
func (m *merge) begin(keyID, before string, indexes ...idIndex) {
	r := &keyRun{keyID: keyID, indexes: indexes}
	for _, x := range indexes {
		r.cursors = append(r.cursors, m.tx.Bucket(x.bucket).Cursor())
	}
	prefix := indexes[0].prefix
	end := append(slices.Clone(prefix), before...)
	if before == "" {
		end = append(slices.Clone(prefix[:len(prefix)-1]), 1) // the prefix ends with a zero
	}
	if m.seek(r, 0, end); r.id != nil {
		m.runs = append(m.runs, r)
	}
}

// seek finds the last id of an index below a key.
func (m *merge) seek(r *keyRun, index int, end []byte) {
	m.rows++
	prefix := r.indexes[index].prefix
	k, _ := below(m.tx.Bucket(r.indexes[index].bucket), r.cursors[index], end)
	if !bytes.HasPrefix(k, prefix) {
		r.id = nil
		return
	}
	r.id, r.sure = k[len(prefix):], len(r.indexes) == 1
}

// newest returns the run with the newest candidate; nil at the end.
func (m *merge) newest() *keyRun {
	if len(m.runs) == 0 {
		return nil
	}
	return slices.MaxFunc(m.runs, func(a, b *keyRun) int { return bytes.Compare(a.id, b.id) })
}

// next moves a run below its candidate.
func (m *merge) next(r *keyRun) {
	m.seek(r, 0, append(slices.Clone(r.indexes[0].prefix), r.id...))
	m.ended(r)
}

// intersect looks up the candidate of a run in all its indexes. If one lacks it, the run moves
// below.
func (m *merge) intersect(r *keyRun) {
	id := r.id
	for i := range r.indexes {
		m.seek(r, i, append(append(slices.Clone(r.indexes[i].prefix), id...), 0))
		if !bytes.Equal(r.id, id) {
			m.ended(r)
			return
		}
	}
	r.sure = true
}

func (m *merge) ended(r *keyRun) {
	if r.id == nil {
		m.runs = slices.DeleteFunc(m.runs, func(o *keyRun) bool { return o == r })
	}
}

// idAt returns an id below every UUIDv7 of a time and above those of earlier times.
func idAt(t time.Time) string {
	ms := max(0, t.UnixMilli())
	return fmt.Sprintf("%08x-%04x", ms>>16, ms&0xffff)
}
