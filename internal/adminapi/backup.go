package adminapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const sandboxWorld = "sandbox" // of stores that only the sandbox uses; see boltstore.Sandbox

const (
	// MasterKeyHeader says where the master key is that the backup needs.
	MasterKeyHeader = "Purser-Master-Key-Place"
	// NoBlockHeader says why the backup has no block number.
	NoBlockHeader = "Purser-No-Block"
)

const (
	blockTime = 10 * time.Second // bounds asking the chain for a backup's block
	stallTime = time.Minute      // bounds how long a client may leave a part of a backup untaken
	sentPart  = 1 << 20          // bytes
)

// Mark says what a backup knows: all payments up to a time, and the block of the chain then.
type Mark struct {
	At    time.Time
	Block *pay.MarkedBlock // nil if the chain did not tell it
}

// Copy is a copy of a database in use. Its user must close it.
type Copy interface {
	// Check returns the report of what is wrong with the copy, as JSON has it.
	Check(ctx context.Context) (report any, err error)
	Open() (*os.File, error)
	Close() error
}

// examiner is a store that is checked where it is, because it is no file that purser could copy.
type examiner interface {
	// Examine returns the report of what is wrong with the store at a place, as JSON has it. It ends
	// when the store is closed.
	Examine(ctx context.Context, place string) (report any, err error)
}

// copyStore copies the store, and marks the copy if it is to be a backup. The request is counted
// in only while the copy is taken; what is done with the copy does not keep purser from stopping.
func (p *Purser) copyStore(ctx context.Context, mark *Mark) (Copy, error) {
	if err := p.Enter(); err != nil {
		return nil, Errorf(http.StatusServiceUnavailable, "%w", err)
	}
	defer p.Leave()
	c, err := p.Copy(ctx, mark)
	if err != nil {
		return nil, failure(err)
	}
	return c, nil
}

// copies serves requests with an empty body that work on a copy of the store.
func (h *Handler) copies(serve func(*Purser, http.ResponseWriter, *http.Request) error) serves {
	return func(w http.ResponseWriter, r *http.Request) error {
		p, err := h.purser()
		if err == nil {
			err = readBody(w, r, &struct{}{})
		}
		if err != nil {
			return err
		}
		return serve(p, w, r)
	}
}

func (p *Purser) check(w http.ResponseWriter, r *http.Request) error {
	if store, is := p.Store.(examiner); is {
		report, err := store.Examine(r.Context(), p.Place)
		if err != nil {
			return failure(err)
		}
		return writeBody(w, http.StatusOK, report)
	}
	c, err := p.copyStore(r.Context(), nil)
	if err != nil {
		return err
	}
	report, err := c.Check(r.Context())
	if err := errors.Join(err, c.Close()); err != nil {
		return failure(err)
	}
	return writeBody(w, http.StatusOK, report)
}

func (p *Purser) backup(w http.ResponseWriter, r *http.Request) error {
	mark := Mark{At: time.Now().UTC()}
	// Before the copy: a payment that is not in it must have moved money later.
	block, err := p.block(r.Context())
	if err != nil {
		p.Log.Warn("a backup has no block number", "error", err)
		w.Header().Set(NoBlockHeader, err.Error())
	}
	mark.Block = block
	c, err := p.copyStore(r.Context(), &mark)
	if err != nil {
		return err
	}
	w.Header().Set(MasterKeyHeader, p.MasterKeyPlace)
	err = send(w, c)
	if err := errors.Join(err, c.Close()); err != nil {
		p.Log.Warn("backup not handed out", "error", err)
		panic(http.ErrAbortHandler) // an answer would become a part of the file
	}
	p.BackupTaken(mark.At)
	p.Log.Info("backup taken", "store", p.Place)
	return nil
}

// send writes a copy to the caller, for as long as the caller takes it.
func send(w http.ResponseWriter, c Copy) (err error) {
	file, err := c.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	deadline := http.NewResponseController(w)
	for left := info.Size(); left > 0; {
		_ = deadline.SetWriteDeadline(time.Now().Add(stallTime))
		n, err := io.CopyN(w, file, min(left, sentPart))
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// block asks the chain for its newest safe block. It fails without an RPC, and with one that is
// for another chain than the store.
func (p *Purser) block(ctx context.Context) (*pay.MarkedBlock, error) {
	if p.Chain == nil {
		return nil, fmt.Errorf("no RPC is configured (%s)", p.Payer.RPCSetting(p.Networks[0].Name))
	}
	rpc, ok := p.Chain.(interface {
		Safe(ctx context.Context, n x402.Network) (pay.ChainBlock, error)
	})
	if !ok {
		return nil, errors.New("the RPC client tells no block")
	}
	ctx, cancel := context.WithTimeout(ctx, blockTime)
	defer cancel()
	network := p.Networks[0]
	id, err := p.Chain.Identify(ctx, network, network.Assets[0])
	if err != nil {
		return nil, err
	}
	world, err := p.Store.World(ctx, network.Name)
	if err != nil {
		return nil, err
	}
	if world != "" && world != sandboxWorld && world != id.Genesis {
		return nil, fmt.Errorf("the RPC is on another chain than the store: genesis %s instead of %s", id.Genesis, world)
	}
	b, err := rpc.Safe(ctx, network)
	if err != nil {
		return nil, err
	}
	return &pay.MarkedBlock{Network: network.Name, Genesis: id.Genesis, Number: b.Number, Hash: b.Hash, Time: b.Time}, nil
}
