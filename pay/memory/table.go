package memory

import (
	"iter"
	"maps"
	"slices"
)

// table holds rows by id, in the order of their ids.
type table[T any] struct {
	ids []string
	row map[string]T
}

func (t *table[T]) get(id string) (row T, ok bool) {
	row, ok = t.row[id]
	return row, ok
}

func (t *table[T]) has(id string) bool { _, ok := t.row[id]; return ok }

// find returns a row, or the error missing.
func (t *table[T]) find(id string, missing error) (row T, err error) {
	row, ok := t.row[id]
	if !ok {
		err = missing
	}
	return row, err
}

func (t *table[T]) put(id string, row T) {
	if t.row == nil {
		t.row = map[string]T{}
	}
	if _, ok := t.row[id]; !ok {
		i, _ := slices.BinarySearch(t.ids, id)
		t.ids = slices.Insert(t.ids, i, id)
	}
	t.row[id] = row
}

func (t *table[T]) delete(id string) {
	if i, ok := slices.BinarySearch(t.ids, id); ok {
		t.ids = slices.Delete(t.ids, i, i+1)
		delete(t.row, id)
	}
}

// ascending visits the rows with an id above after. The visitor may replace the row it visits.
func (t *table[T]) ascending(after string) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		i, found := slices.BinarySearch(t.ids, after)
		if found {
			i++
		}
		for _, id := range t.ids[i:] {
			if !yield(id, t.row[id]) {
				return
			}
		}
	}
}

// descending visits the rows with an id below before, all if that is empty, from the last down.
func (t *table[T]) descending(before string) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		n := len(t.ids)
		if before != "" {
			n, _ = slices.BinarySearch(t.ids, before)
		}
		for _, id := range slices.Backward(t.ids[:n]) {
			if !yield(id, t.row[id]) {
				return
			}
		}
	}
}

func (t *table[T]) clone() table[T] {
	return table[T]{ids: slices.Clone(t.ids), row: maps.Clone(t.row)}
}

// page lists the first rows with an id above after, at most limit and 1,000 of them.
func page[T any](t *table[T], after string, limit int) (list []T) {
	for _, row := range t.ascending(after) {
		if len(list) >= min(limit, 1000) {
			break
		}
		list = append(list, row)
	}
	return list
}
