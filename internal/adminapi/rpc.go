package adminapi

import (
	"net/http"
	"time"
)

// SafeBlock is the last safe block of a network that purser has seen.
type SafeBlock struct {
	Network string    `json:"network"`
	Number  uint64    `json:"number"`
	Hash    string    `json:"hash"`
	Time    time.Time `json:"time"`
}

// RPCStatus answers GET /purser/rpc.
type RPCStatus struct {
	RPC       string      `json:"rpc"` // "ok", "none", or what is wrong
	SecondRPC string      `json:"rpc_2"`
	Blocks    []SafeBlock `json:"blocks"`
}

func (p *Purser) keptBlocks(r *http.Request) (any, error) {
	health := p.Payer.Health(r.Context())
	s := RPCStatus{RPC: probeText(health.RPC), SecondRPC: probeText(health.SecondRPC), Blocks: []SafeBlock{}}
	for _, n := range p.Networks {
		b, err := p.Store.SafeBlock(r.Context(), n.Name)
		if err != nil {
			return nil, err
		}
		if b != nil {
			s.Blocks = append(s.Blocks, SafeBlock{n.Name, b.Number, b.Hash, b.Time})
		}
	}
	return s, nil
}

// TrustRPC is the body of POST /purser/rpc/trust.
type TrustRPC struct {
	Network string `json:"network"`
}

func (p *Purser) trustRPC(r *http.Request, said TrustRPC) (any, error) {
	if _, err := p.Payer.ForgetSafeBlock(r.Context(), said.Network); err != nil {
		return nil, err
	}
	return p.keptBlocks(r)
}
