package caddymodule

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
)

// keptBlock is the last safe block of a network that purser has seen.
type keptBlock struct {
	Network string    `json:"network"`
	Number  uint64    `json:"number"`
	Hash    string    `json:"hash"`
	Time    time.Time `json:"time"`
}

// rpcStatus answers GET /purser/rpc.
type rpcStatus struct {
	RPC       string      `json:"rpc"` // "ok", "none", or what is wrong
	SecondRPC string      `json:"rpc_2"`
	Blocks    []keptBlock `json:"blocks"`
}

// keptBlocks tells what the RPCs are held against: GET /purser/rpc.
func (*adminAPI) keptBlocks(w http.ResponseWriter, r *http.Request) error {
	t, err := enterTenant()
	if err != nil {
		return err
	}
	defer t.leave()
	h := t.payer.Health(r.Context())
	s := rpcStatus{RPC: probeText(h.RPC), SecondRPC: probeText(h.SecondRPC), Blocks: []keptBlock{}}
	for _, n := range t.app.settings.networks {
		b, err := t.home.store.SafeBlock(r.Context(), n.Name)
		if err != nil {
			return adminFailure(err)
		}
		if b != nil {
			s.Blocks = append(s.Blocks, keptBlock{n.Name, b.Number, b.Hash, b.Time})
		}
	}
	return writeBody(w, http.StatusOK, s)
}

// trust is the body of POST /purser/rpc/trust.
type trust struct {
	Network string `json:"network"`
}

// trustRPC forgets a network's kept block: POST /purser/rpc/trust.
func (a *adminAPI) trustRPC(w http.ResponseWriter, r *http.Request) error {
	var said trust
	if err := readBody(w, r, &said); err != nil {
		return err
	}
	t, err := enterTenant()
	if err != nil {
		return err
	}
	defer t.leave()
	_, err = t.payer.ForgetSafeBlock(r.Context(), said.Network)
	if e, wrong := errors.AsType[*pay.InputError](err); wrong {
		return adminError(http.StatusBadRequest, "%w", e)
	}
	if err != nil {
		return adminFailure(err)
	}
	return a.keptBlocks(w, r)
}

// clockText is "ok", or how our clock differs from others.
func clockText(s pay.ClockState) string {
	if s.OK {
		return "ok"
	}
	var differs []string
	for _, one := range s.Sources {
		if one.Ahead != 0 {
			differs = append(differs, "ahead of "+string(one.Source)+" by "+one.Ahead.Round(time.Second).String())
		}
		if one.BlockAhead.Abs() > time.Minute/2 {
			differs = append(differs, "ahead of the latest block of "+string(one.Source)+" by "+one.BlockAhead.Round(time.Second).String())
		}
	}
	text := strings.Join(differs, ", ")
	if s.Stopped {
		return "no new payments: " + text
	}
	return text
}
