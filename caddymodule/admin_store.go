package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/pay"
)

// Headers of a backup: what the file itself does not say.
const (
	// masterKeyHeader says where the master key is that the backup needs.
	masterKeyHeader = "Purser-Master-Key-Place"
	// noBlockHeader says why the backup has no block number.
	noBlockHeader = "Purser-No-Block"
)

const (
	// blockTime bounds asking the chain for a backup's block.
	blockTime = 10 * time.Second
	// stallTime is how long a client may leave a part of a backup untaken.
	stallTime = time.Minute
	// sentPart is the size of such a part.
	sentPart = 1 << 20
)

// copier is a store that can be copied while it is in use.
type copier interface {
	Copy(ctx context.Context, mark *boltstore.Mark) (*boltstore.Copy, error)
}

// copyStore copies the store that serves now, and marks it if it is to be a backup. The
// copy is taken while the tenant is entered; what is done with it does not keep anything
// from stopping.
func copyStore(ctx context.Context, t *tenant, home *pooled, mark *boltstore.Mark) (*boltstore.Copy, error) {
	if err := t.enter(); err != nil {
		return nil, adminError(http.StatusServiceUnavailable, "%w", err)
	}
	defer t.leave()
	store, ok := home.store.(copier)
	if !ok {
		return nil, adminError(http.StatusNotImplemented,
			"a %s store is not a file of purser's: use the tools of the database itself", home.store.Kind())
	}
	c, err := store.Copy(ctx, mark)
	switch {
	case errors.Is(err, boltstore.ErrCopying):
		return nil, adminError(http.StatusConflict, "%w", err)
	case errors.Is(err, boltstore.ErrNoRoom):
		return nil, adminError(http.StatusInsufficientStorage, "%w", err)
	case err != nil:
		return nil, adminFailure(err)
	}
	return c, nil
}

// check checks a copy of the store: POST /purser/check.
func (*adminAPI) check(w http.ResponseWriter, r *http.Request) error {
	home, t := serving()
	if t == nil {
		return adminError(http.StatusServiceUnavailable, "purser has not started")
	}
	if err := readBody(w, r, &struct{}{}); err != nil {
		return err
	}
	c, err := copyStore(r.Context(), t, home, nil)
	if err != nil {
		return err
	}
	report, err := c.Check(r.Context())
	if err := errors.Join(err, c.Close()); err != nil {
		return adminFailure(err)
	}
	return writeBody(w, http.StatusOK, checkAnswer{Path: home.place, Report: report})
}

// checkAnswer is what POST /purser/check answers.
type checkAnswer struct {
	Path string `json:"path"`
	boltstore.Report
}

// backup hands out a copy of the store: POST /purser/backup.
func (*adminAPI) backup(w http.ResponseWriter, r *http.Request) error {
	home, t := serving()
	if t == nil {
		return adminError(http.StatusServiceUnavailable, "purser has not started")
	}
	if err := readBody(w, r, &struct{}{}); err != nil {
		return err
	}
	mark := boltstore.Mark{At: time.Now().UTC()}
	// Before the copy: a payment that is not in it must have moved money later.
	block, err := t.block(r.Context(), home)
	if err != nil {
		t.log.Warn("a backup has no block number", "error", err)
		w.Header().Set(noBlockHeader, err.Error())
	}
	mark.Block = block
	c, err := copyStore(r.Context(), t, home, &mark)
	if err != nil {
		return err
	}
	w.Header().Set(masterKeyHeader, t.app.settings.masterKeyPlace)
	err = send(w, c)
	if err := errors.Join(err, c.Close()); err != nil {
		t.log.Warn("backup not handed out", "error", err)
		panic(http.ErrAbortHandler) // an answer would become a part of the file
	}
	backupTaken(mark.At)
	t.log.Info("backup taken", "store", home.place)
	return nil
}

// send writes a copy to whoever asked for it, as long as they take it.
func send(w http.ResponseWriter, c *boltstore.Copy) (err error) {
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

// block is the chain's newest safe block, nil without an RPC, or with one that is for
// another chain than the store.
func (t *tenant) block(ctx context.Context, home *pooled) (*boltstore.Block, error) {
	if t.chain == nil {
		return nil, errors.New("no RPC is configured (PURSER_RPC_URL)")
	}
	rpc, ok := t.chain.(interface {
		Safe(ctx context.Context) (pay.ChainBlock, error)
	})
	if !ok {
		return nil, errors.New("the RPC client tells no block")
	}
	ctx, cancel := context.WithTimeout(ctx, blockTime)
	defer cancel()
	network := t.app.settings.networks[0]
	id, err := t.chain.Identify(ctx, network, network.Assets[0])
	if err != nil {
		return nil, err
	}
	world, err := home.store.World(ctx)
	if err != nil {
		return nil, err
	}
	if world != "" && world != boltstore.Sandbox && world != id.Genesis {
		return nil, fmt.Errorf("the RPC is on another chain than the store: genesis %s instead of %s", id.Genesis, world)
	}
	b, err := rpc.Safe(ctx)
	if err != nil {
		return nil, err
	}
	return &boltstore.Block{Network: network.Name, Genesis: id.Genesis, Number: b.Number, Hash: b.Hash, Time: b.Time}, nil
}
