package simulation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// limits says what an RPC does not do.
type limits struct {
	pruned   bool // it has the states of the last blocks only
	mostLogs int  // in one answer; 0: any number
	lookups  int  // transactions that it tells of for one question; 0: any number
}

// statesKept is the number of blocks whose states a pruned RPC has.
const statesKept = 64

// view is the chain as an RPC has it at one call.
type view struct {
	*ledger
	head  uint64
	stray bool // it is of another chain
	limits
}

// refusal is a JSON-RPC error.
type refusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (r *refusal) Error() string { return r.Message }

var (
	errHeader = &refusal{-32000, "header not found"}
	errState  = &refusal{-32000, "missing trie node"}
)

// Function selectors that package chain calls.
const (
	balanceOf          = "70a08231" // balanceOf(address)
	authorizationState = "e94a0102" // authorizationState(address,bytes32)
	domainSeparator    = "3644e515" // DOMAIN_SEPARATOR()
	allowance          = "dd62ed3e" // allowance(address,address)
	nonceBitmap        = "4fe02b44" // nonceBitmap(address,uint256) of Permit2
)

// Topics of events.
const (
	topicTransfer = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
	topicUsed     = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5"
	topicSettled  = "0x0000000000000000000000000000000000000000000000000000000000005e77"
)

// approved bounds the amount that Permit2 may move of each wallet.
const approved = 1_000_000_000_000

// strayed counts the forks of another chain's blocks.
const strayed = 0xffff

// hash returns the hash of a block.
func (v view) hash(block uint64) string {
	if v.stray {
		return hashOfBlock(block, strayed)
	}
	return v.hashOf(block)
}

// answer answers a call. It must be called with the lock.
func (v view) answer(method string, params []json.RawMessage) (any, error) {
	switch method {
	case "eth_chainId":
		if v.stray {
			return hexutil.Uint64(v.network.ChainID + 1), nil
		}
		return hexutil.Uint64(v.network.ChainID), nil
	case "eth_getBlockByNumber":
		number, err := v.named(params[0])
		if err != nil || number > v.head {
			return nil, err
		}
		return map[string]any{
			"number": hexutil.Uint64(number), "hash": v.hash(number), "timestamp": hexutil.Uint64(v.timeOf(number).Unix()), "transactions": v.within(number),
		}, nil
	case "eth_call":
		return v.call(params[0], params[1])
	case "eth_getCode":
		return "0x", nil
	case "eth_getLogs":
		return v.logs(params[0])
	case "eth_getTransactionByHash", "eth_getTransactionReceipt":
		var hash string
		if err := json.Unmarshal(params[0], &hash); err != nil {
			return nil, err
		}
		return v.transaction(method, hash), nil
	}
	return nil, &refusal{-32601, "the method does not exist"}
}

// named returns the number of a block with a tag or number.
func (v view) named(param json.RawMessage) (uint64, error) {
	switch name := strings.Trim(string(param), `"`); name {
	case "latest":
		return v.head, nil
	case "safe":
		return v.head - safeBlocks, nil
	case "finalized":
		return v.head - 2*safeBlocks, nil
	default:
		return hexutil.DecodeUint64(name)
	}
}

// numbered returns the number of a block that the RPC has by its hash.
func (v view) numbered(hash string) (number uint64, err error) {
	if number, err = strconv.ParseUint(strings.TrimPrefix(hash, "0x")[:32], 16, 64); err == nil && (number > v.head || v.hash(number) != hash) {
		err = errHeader
	}
	return number, err
}

// within lists the transactions of a block.
func (v view) within(block uint64) []string {
	list := []string{}
	v.each(block, block, func(t transaction, _ []entry) { list = append(list, t.hash) })
	return list
}

// each tells of the transactions in a range of blocks, with their logs.
func (v view) each(from, to uint64, tell func(transaction, []entry)) {
	if v.stray {
		return
	}
	to = min(to, v.head)
	for i := range v.dust {
		if d := &v.dust[i]; d.block >= from && d.block <= to {
			tell(d.transaction, []entry{{d.token, topicTransfer, d.from, wordOf(d.to.Bytes()), d.value}})
		}
	}
	for _, m := range v.moves {
		if m.block < from || m.block > to {
			continue
		}
		a := m.authorization
		logs := []entry{{v.asset.Address, topicUsed, a.From, a.Nonce, none}, {v.asset.Address, topicTransfer, a.From, wordOf(a.To.Bytes()), m.value}}
		switch a.Rail {
		case x402.RailEIP3009, x402.OtherRails:
		case x402.RailPermit2:
			logs = []entry{logs[1], {x402.ExactProxy, topicSettled, a.From, a.Nonce, none}}
		case x402.RailUpto:
			logs = []entry{logs[1], {x402.UptoProxy, topicSettled, a.From, a.Nonce, none}}
		}
		tell(m.transaction, logs)
	}
}

// none is the amount of events without one.
var none money.Amount

// entry is one log.
type entry struct {
	contract x402.Address
	topic    string
	from     x402.Address
	third    [32]byte
	value    money.Amount
}

func (e entry) topics() []string {
	return []string{e.topic, hexOf(wordOf(e.from.Bytes())), hexOf(e.third)}
}

func hexOf(w [32]byte) string { return hexutil.Encode(w[:]) }

// shown returns a log as answers have it.
func (v view) shown(t transaction, place int, e entry) map[string]any {
	data := "0x"
	if e.topic == topicTransfer {
		data = hexOf(e.value.Bytes32())
	}
	return map[string]any{
		"address": lower(e.contract), "topics": e.topics(), "data": data, "removed": false, "blockNumber": hexutil.Uint64(t.block),
		"blockHash": v.hash(t.block), "transactionHash": t.hash, "logIndex": hexutil.Uint64(2*t.number + uint64(place)),
	}
}

// transaction returns a transaction, or its receipt; nil: there is none.
func (v view) transaction(method, hash string) (found any) {
	v.each(0, v.head, func(t transaction, logs []entry) {
		switch {
		case t.hash != hash:
		case method == "eth_getTransactionByHash":
			found = map[string]any{"hash": hash, "blockHash": v.hash(t.block), "to": lower(t.to), "input": hexutil.Bytes(t.input)}
		default:
			shown := []any{}
			for i, e := range logs {
				shown = append(shown, v.shown(t, i, e))
			}
			found = map[string]any{"transactionHash": hash, "blockHash": v.hash(t.block), "logs": shown}
		}
	})
	return found
}

// call answers a call of a contract that reads.
func (v view) call(what, at json.RawMessage) (any, error) {
	var msg struct {
		To   x402.Address
		Data hexutil.Bytes
	}
	if err := json.Unmarshal(what, &msg); err != nil {
		return nil, err
	}
	block, err := v.state(at)
	if err != nil {
		return nil, err
	}
	var words [2][32]byte
	for i := range words {
		if end := 4 + 32*(i+1); len(msg.Data) >= end {
			words[i] = [32]byte(msg.Data[end-32 : end])
		}
	}
	owner := x402.EVMAddress([20]byte(words[0][12:]))
	var word [32]byte
	switch name := fmt.Sprintf("%x", []byte(msg.Data[:4])); {
	case msg.To == x402.Permit2 && name == nonceBitmap:
		if !v.stray {
			word = v.bits(owner, words[1], block)
		}
	case msg.To != v.asset.Address:
		return "0x", nil
	case name == domainSeparator:
		word = v.asset.DomainSeparator
	case name == allowance:
		word = money.New(approved).Bytes32()
	case name == balanceOf:
		word = v.balance(owner, block).Bytes32()
	case name == authorizationState:
		m := v.used(x402.Authorization{From: owner, Nonce: words[1]})
		if !v.stray && m != nil && m.block <= block && !m.authorization.Rail.Permit2() {
			word[31] = 1
		}
	default:
		return nil, &refusal{3, "execution reverted"}
	}
	return hexOf(word), nil
}

// state returns the number of the block whose state a call reads.
func (v view) state(at json.RawMessage) (block uint64, err error) {
	if bytes.HasPrefix(at, []byte("{")) {
		var by struct{ BlockHash string }
		if err = json.Unmarshal(at, &by); err == nil {
			block, err = v.numbered(by.BlockHash)
		}
	} else {
		block, err = v.named(at)
	}
	switch {
	case err != nil:
		return 0, err
	case block > v.head:
		return 0, errHeader
	case v.pruned && block+statesKept < v.head:
		return 0, errState
	}
	return block, nil
}

// hashes holds a topic or a list of topics.
type hashes []string

func (h *hashes) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("[")) {
		return json.Unmarshal(text, (*[]string)(h))
	}
	*h = make(hashes, 1)
	return json.Unmarshal(text, &(*h)[0])
}

// logs answers eth_getLogs. An RPC that lags has fewer, and does not say so.
func (v view) logs(param json.RawMessage) (any, error) {
	var want struct {
		Address                       *x402.Address
		Topics                        []hashes
		FromBlock, ToBlock, BlockHash string
	}
	if err := json.Unmarshal(param, &want); err != nil {
		return nil, err
	}
	from, err := v.named(json.RawMessage(want.FromBlock))
	to, err2 := v.named(json.RawMessage(want.ToBlock))
	if want.BlockHash != "" {
		from, err = v.numbered(want.BlockHash)
		to, err2 = from, nil
	}
	if err != nil || err2 != nil {
		return nil, errHeader
	}
	found := []any{}
	v.each(from, to, func(t transaction, logs []entry) {
		for i, e := range logs {
			if (want.Address == nil || e.contract == *want.Address) && matches(e.topics(), want.Topics) {
				found = append(found, v.shown(t, i, e))
			}
		}
	})
	if v.mostLogs > 0 && len(found) > v.mostLogs {
		return nil, &refusal{-32005, fmt.Sprintf("query returned more than %d results", v.mostLogs)}
	}
	return found, nil
}

func matches(topics []string, want []hashes) bool {
	for i, any := range want {
		if len(any) > 0 && !slices.Contains(any, topics[i]) {
			return false
		}
	}
	return true
}
