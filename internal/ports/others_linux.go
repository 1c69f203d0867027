package ports

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// ListenedByOthers returns those of some addresses at which a socket of another process listens, also where both allow the
// other. It opens no socket. It fails where the system does not tell.
func ListenedByOthers(all []netip.AddrPort) (taken []netip.AddrPort, err error) {
	found, err := listeners(all)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	own, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, fmt.Errorf("read own sockets: %w", err)
	}
	for _, fd := range own {
		to, _ := os.Readlink("/proc/self/fd/" + fd.Name()) // it may be closed by now
		if inode, is := strings.CutPrefix(to, "socket:["); is {
			delete(found, strings.TrimSuffix(inode, "]"))
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	// A socket of this process that was closed before its turn came listens no more.
	still, err := listeners(all)
	maps.DeleteFunc(still, func(inode string, _ []netip.AddrPort) bool { return found[inode] == nil })
	for _, at := range all {
		for _, places := range still {
			if slices.Contains(places, at) {
				taken = append(taken, at)
				break
			}
		}
	}
	return taken, err
}

// listeners returns the inodes of all sockets that listen where connections to some addresses come, with these addresses.
func listeners(all []netip.AddrPort) (map[string][]netip.AddrPort, error) {
	found := map[string][]netip.AddrPort{}
	for _, table := range []string{"tcp", "tcp6"} {
		err := listening("/proc/self/net/"+table, all, found)
		if os.IsNotExist(err) && table == "tcp6" {
			continue // a system without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("read listening sockets: %w", err)
		}
	}
	return found, nil
}

// Columns of the kernel's table of sockets, and states in it.
const (
	columnLocal = 1
	columnState = 3
	columnInode = 9
	stateListen = "0A"
	stateOpened = "03" // a connection that a client is opening: older kernels list it behind its listener
)

// listening finds the inodes of a table's sockets that listen where connections to some addresses come. The kernel lists
// all of them before the first connection. A server may have many thousands of connections, so reading ends there.
func listening(table string, all []netip.AddrPort, found map[string][]netip.AddrPort) error {
	f, err := os.Open(table) //nolint:gosec // of the kernel
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Scan() // the names of the columns
	for lines.Scan() {
		columns := strings.Fields(lines.Text())
		if len(columns) <= columnInode || columns[columnState] == stateOpened {
			continue
		}
		if columns[columnState] != stateListen {
			return nil
		}
		local, err := parseLocal(columns[columnLocal])
		if err != nil {
			return err
		}
		for _, at := range all {
			if local.Port() == at.Port() && (local.Addr() == at.Addr().Unmap() || local.Addr().IsUnspecified() || at.Addr().IsUnspecified()) {
				found[columns[columnInode]] = append(found[columns[columnInode]], at)
			}
		}
	}
	return lines.Err()
}

// parseLocal reads an address of the table: words of 32 bits in the machine's order, and a port.
func parseLocal(text string) (netip.AddrPort, error) {
	words, port, _ := strings.Cut(text, ":")
	address, err := hex.DecodeString(words)
	if err != nil {
		return netip.AddrPort{}, err
	}
	for i := 0; i+4 <= len(address); i += 4 {
		binary.NativeEndian.PutUint32(address[i:], binary.BigEndian.Uint32(address[i:]))
	}
	ip, is := netip.AddrFromSlice(address)
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil || !is {
		return netip.AddrPort{}, fmt.Errorf("%q is no address of a socket", text)
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), nil
}
