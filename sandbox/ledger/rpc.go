package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// maxCall bounds the body of a call, in bytes.
const maxCall = 1 << 20

// Function selectors of the token.
const (
	balanceOf          = "70a08231" // balanceOf(address)
	authorizationState = "e94a0102" // authorizationState(address,bytes32)
	domainSeparator    = "3644e515" // DOMAIN_SEPARATOR()
)

// refusal is a JSON-RPC error.
type refusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (r *refusal) Error() string { return r.Message }

func refuse(code int, format string, args ...any) *refusal {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// serve answers one JSON-RPC call. It does not support batches.
func (l *Ledger) serve(w http.ResponseWriter, r *http.Request) {
	var call struct {
		ID     json.RawMessage
		Method string
		Params []json.RawMessage
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, maxCall)).Decode(&call); err != nil {
		http.Error(w, "not a call", http.StatusBadRequest)
		return
	}
	answer := map[string]any{"jsonrpc": "2.0", "id": call.ID}
	var no *refusal
	switch result, err := l.answer(call.Method, call.Params); {
	case errors.As(err, &no):
		answer["error"] = no
	case err != nil:
		answer["error"] = refuse(-32602, "invalid argument: %v", err)
	default:
		answer["result"] = result
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // ignore a caller that has left
}

func (l *Ledger) answer(method string, params []json.RawMessage) (any, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head() // an idle chain makes blocks too
	wants := map[string]int{"eth_getBlockByNumber": 1, "eth_getBlockByHash": 1, "eth_call": 2, "eth_getLogs": 1}[method]
	if len(params) < wants {
		return nil, refuse(-32602, "missing value for required argument %d", len(params))
	}
	switch method {
	case "eth_chainId":
		return hexutil.Uint64(l.network.ChainID), nil
	case "eth_blockNumber":
		return hexutil.Uint64(l.head().number), nil
	case "eth_getBlockByNumber", "eth_getBlockByHash":
		b, err := l.blockNamed(params[0])
		if b == nil || err != nil {
			return nil, err
		}
		return map[string]any{
			"number": hexutil.Uint64(b.number), "hash": b.hash, "timestamp": hexutil.Uint64(b.time), "transactions": []string{},
		}, nil
	case "eth_call":
		return l.call(params[0], params[1])
	case "eth_getLogs":
		return l.filter(params[0])
	}
	return nil, refuse(-32601, "the method %s does not exist/is not available", method)
}

// blockNamed returns the block with a tag, number or hash, or nil.
func (l *Ledger) blockNamed(param json.RawMessage) (*block, error) {
	var name string
	if err := json.Unmarshal(param, &name); err != nil {
		return nil, err
	}
	switch name {
	case "latest", "pending", "safe", "finalized":
		return &l.blocks[len(l.blocks)-1], nil
	}
	if len(name) == 2+2*common.HashLength {
		hash := common.HexToHash(name)
		for i := range slices.Backward(l.blocks) {
			if l.blocks[i].hash == hash {
				return &l.blocks[i], nil
			}
		}
		return nil, nil
	}
	n, err := hexutil.DecodeUint64(name)
	if err != nil || n >= uint64(len(l.blocks)) {
		return nil, err
	}
	return &l.blocks[n], nil
}

// state returns the block whose state a call reads. param is a tag, a number, or an object of
// EIP-1898.
func (l *Ledger) state(param json.RawMessage) (*block, error) {
	var at struct {
		BlockHash, BlockNumber json.RawMessage
	}
	if bytes.HasPrefix(bytes.TrimSpace(param), []byte("{")) {
		if err := json.Unmarshal(param, &at); err != nil {
			return nil, err
		}
		if param = at.BlockHash; param == nil {
			param = at.BlockNumber
		}
	}
	b, err := l.blockNamed(param)
	if b == nil && err == nil {
		err = refuse(-32000, "header not found")
	}
	return b, err
}

// call implements eth_call for the token's three read functions. Other accounts have no code.
func (l *Ledger) call(param, at json.RawMessage) (any, error) {
	var msg struct {
		To   common.Address
		Data hexutil.Bytes
	}
	if err := json.Unmarshal(param, &msg); err != nil {
		return nil, err
	}
	b, err := l.state(at)
	if err != nil {
		return nil, err
	}
	if msg.To != l.TokenAddress() {
		return "0x", nil
	}
	data := msg.Data
	word := func(n int) common.Hash {
		return common.BytesToHash(data[4+32*n : 4+32*(n+1)])
	}
	switch name := fmt.Sprintf("%x", []byte(data[:min(4, len(data))])); {
	case name == domainSeparator:
		return common.Hash(l.asset.DomainSeparator), nil
	case name == balanceOf && len(data) >= 4+32:
		first := word(0)
		return common.BigToHash(l.owned(common.BytesToAddress(first[:]), b.number)), nil
	case name == authorizationState && len(data) >= 4+64:
		first := word(0)
		in, found := l.states[stateKey{common.BytesToAddress(first[:]), word(1)}]
		if found && in <= b.number {
			return common.BigToHash(big.NewInt(1)), nil
		}
		return common.Hash{}, nil
	}
	return nil, refuse(3, "execution reverted")
}

// hashes holds a topic or a list of topics. null or an absent value matches all.
type hashes []common.Hash

func (h *hashes) UnmarshalJSON(text []byte) error {
	if !bytes.HasPrefix(text, []byte(`"`)) {
		return json.Unmarshal(text, (*[]common.Hash)(h))
	}
	*h = make(hashes, 1)
	return json.Unmarshal(text, &(*h)[0])
}

// filter implements eth_getLogs.
func (l *Ledger) filter(param json.RawMessage) (any, error) {
	var want struct {
		Address                       common.Address
		Topics                        []hashes
		FromBlock, ToBlock, BlockHash json.RawMessage
	}
	if err := json.Unmarshal(param, &want); err != nil {
		return nil, err
	}
	found := []map[string]any{}
	first, last, err := l.span(want.FromBlock, want.ToBlock, want.BlockHash)
	if err != nil {
		return nil, err
	}
	for i, e := range l.logs {
		if want.Address != l.TokenAddress() || e.block < first || e.block > last || !e.matches(want.Topics) {
			continue
		}
		found = append(found, map[string]any{
			"address": l.TokenAddress(), "topics": e.topics, "data": hexutil.Bytes(e.data), "removed": false,
			"blockNumber": hexutil.Uint64(e.block), "blockHash": l.blocks[e.block].hash, "transactionHash": e.tx,
			"transactionIndex": "0x0", "logIndex": hexutil.Uint64(uint64(i)),
		})
	}
	return found, nil
}

// span returns the range of blocks that a filter selects.
func (l *Ledger) span(from, to, hash json.RawMessage) (first, last uint64, err error) {
	if hash != nil {
		b, err := l.blockNamed(hash)
		if b == nil {
			return 0, 0, errors.Join(err, refuse(-32000, "unknown block"))
		}
		return b.number, b.number, err
	}
	ends := [2]uint64{0, l.blocks[len(l.blocks)-1].number}
	for i, param := range []json.RawMessage{from, to} {
		if param == nil {
			continue
		}
		b, err := l.blockNamed(param)
		switch {
		case err != nil:
			return 0, 0, err
		case b != nil:
			ends[i] = b.number
		case i == 0: // the range begins beyond the head
			return 0, 0, refuse(-32000, "invalid block range params")
		}
	}
	if ends[0] > ends[1] {
		return 0, 0, refuse(-32000, "invalid block range params")
	}
	return ends[0], ends[1], nil
}

func (e event) matches(topics []hashes) bool {
	if len(topics) > len(e.topics) {
		return false
	}
	for i, any := range topics {
		if len(any) > 0 && !slices.Contains(any, e.topics[i]) {
			return false
		}
	}
	return true
}
