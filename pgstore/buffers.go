package pgstore

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// buffers are kept by a connection of the committer, because a batch has a hundred kilobytes to send. pgx begins each
// statement and each round trip with a small buffer, and doubles it until there is room. That was two fifths of the garbage.
type buffers struct {
	// arguments has those of a statement, until pgx copies them to trip. It grows up to tripSize.
	arguments []byte
	trip      []byte
}

// tripSize is the room for a round trip, in bytes. What is larger gets a buffer that is not kept.
const tripSize = 256 << 10

const buffersName = "purser/buffers"

// keepBuffers gives a connection its buffers. No other connection may have them: a lost one may still be sending.
func keepBuffers(c *pgx.Conn) {
	b := &buffers{trip: make([]byte, 0, tripSize)}
	c.PgConn().CustomData()[buffersName] = b
	b.register(c.TypeMap())
}

// register has a connection encode lists in the buffer for arguments.
func (b *buffers) register(types *pgtype.Map) {
	for _, name := range []string{"_text", "_bytea", "_int2", "_int4", "_int8"} {
		if t, known := types.TypeForName(name); known {
			types.RegisterType(&pgtype.Type{Name: t.Name, OID: t.OID, Codec: listCodec{t.Codec, b}})
		}
	}
}

// send sends a round trip.
func send(ctx context.Context, c *pgx.Conn, trip *pgx.Batch) pgx.BatchResults {
	if b, kept := c.PgConn().CustomData()[buffersName].(*buffers); kept {
		c.PgConn().Frontend().Send(b)
	}
	return c.SendBatch(ctx, trip)
}

// Frontend makes the buffers a message of this side: an empty one, in front of a round trip.
func (b *buffers) Frontend() {}

// Decode is for messages of the other side.
func (b *buffers) Decode([]byte) error { return errors.ErrUnsupported }

// Encode has the connection collect the round trip in the buffer that was kept.
func (b *buffers) Encode(to []byte) ([]byte, error) {
	if len(to) == 0 {
		to = b.trip
	}
	return to, nil
}

// listCodec encodes lists in the buffer of their connection, and the most frequent ones without pgx.
type listCodec struct {
	pgtype.Codec
	buffers *buffers
}

// PlanEncode is asked once for each type of list.
func (c listCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	plan := c.Codec.PlanEncode(m, oid, format, value)
	switch value.(type) {
	case array[[]byte]:
		if oid == pgtype.ByteaArrayOID && format == pgtype.BinaryFormatCode {
			plan = bytesPlan{}
		}
	case []string:
		if oid == pgtype.TextArrayOID && format == pgtype.BinaryFormatCode {
			plan = textsPlan{}
		}
	}
	if plan == nil {
		return nil
	}
	return keptPlan{plan, c.buffers}
}

// keptPlan encodes a list. The first one of a statement goes to the buffer that was kept; the others follow there.
type keptPlan struct {
	pgtype.EncodePlan
	buffers *buffers
}

func (p keptPlan) Encode(value any, to []byte) ([]byte, error) {
	if len(to) == 0 && cap(to) < cap(p.buffers.arguments) {
		to = p.buffers.arguments
	}
	to, err := p.EncodePlan.Encode(value, to)
	if cap(to) > cap(p.buffers.arguments) && cap(to) <= tripSize {
		p.buffers.arguments = to[:0]
	}
	return to, err
}

type bytesPlan struct{}

func (bytesPlan) Encode(value any, to []byte) ([]byte, error) {
	list, _ := value.(array[[]byte])
	size, nulls := 0, false
	for _, b := range list {
		size, nulls = size+4+len(b), nulls || b == nil
	}
	to = appendListHead(to, pgtype.ByteaOID, len(list), size, nulls)
	for _, b := range list {
		if b == nil {
			to = binary.BigEndian.AppendUint32(to, math.MaxUint32) // -1
		} else {
			to = append(binary.BigEndian.AppendUint32(to, uint32(len(b))), b...) //nolint:gosec // short
		}
	}
	return to, nil
}

type textsPlan struct{}

func (textsPlan) Encode(value any, to []byte) ([]byte, error) {
	list, _ := value.([]string)
	size := 0
	for _, s := range list {
		size += 4 + len(s)
	}
	to = appendListHead(to, pgtype.TextOID, len(list), size, false)
	for _, s := range list {
		to = append(binary.BigEndian.AppendUint32(to, uint32(len(s))), s...) //nolint:gosec // short
	}
	return to, nil
}

// appendListHead begins a list in the format of PostgreSQL's array_send: the number of dimensions, whether there are nulls,
// the type of elements, and for each dimension its length and first index. It makes room for size bytes that follow.
func appendListHead(to []byte, element uint32, length, size int, nulls bool) []byte {
	to = slices.Grow(to, 20+size)
	flags := byte(0)
	if nulls {
		flags = 1
	}
	to = binary.BigEndian.AppendUint32(append(to, 0, 0, 0, 1, 0, 0, 0, flags), element)
	return append(binary.BigEndian.AppendUint32(to, uint32(length)), 0, 0, 0, 1) //nolint:gosec // bounded by a batch
}
