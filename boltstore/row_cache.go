package boltstore

import (
	"bytes"
	"sync"
)

// rowCache keeps decoded rows, because each paid request reads its key and its wallets twice, and
// decoding them took a twentieth of its processor time. A row counts only while its bytes are those
// that are stored, so nothing has to be forgotten after a change or an undo. Readers share what a
// row points to and must not change it.
type rowCache[T any] struct {
	mu   sync.RWMutex
	rows map[string]cachedRow[T]
}

type cachedRow[T any] struct {
	encoded []byte
	row     T
}

// maxCached bounds the rows of a cache. A full one is emptied.
const maxCached = 1024

// decode decodes a row of encodeRow.
func (c *rowCache[T]) decode(id string, encoded []byte) (row T, err error) {
	c.mu.RLock()
	known, ok := c.rows[id]
	c.mu.RUnlock()
	if ok && bytes.Equal(known.encoded, encoded) {
		return known.row, nil
	}
	if err := decodeRow(encoded, &row); err != nil {
		return row, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil || len(c.rows) >= maxCached {
		c.rows = map[string]cachedRow[T]{}
	}
	c.rows[id] = cachedRow[T]{bytes.Clone(encoded), row}
	return row, nil
}
