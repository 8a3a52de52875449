"""The simulated NVML: a C library, the grammar of its files, and its building.

`building` finds or compiles the library; `../profiles` has descriptions of
machines. What the library reads is line based: `kind word key=value key="two
words"`, and `#` begins a comment. A card is named by its NVML index (counted
over the cards that are there) or by its UUID. What stands in brackets may be
left out.

In a profile, which says what is there when NVML is first opened:

    system   driver=570.124.06 [nvml=TEXT] cuda=12080
    gpu      uuid= name= total_mib= [bytes_name=HEX for name=] [reserved_mib=]
             [minor=N|unsupported] [pci=00000000:3B:00.0] [numa=N] [cc=8.0]
             [memory=supported|unsupported] [ecc=on|off|unsupported]
             [events=supported|unsupported|unknown] [mig=unsupported|off|on]
             [virtualization=none|passthrough|vgpu|host-vgpu|host-vsga]
    link     a=GPU b=GPU nvlink=N      NVLinks from card to card
    link     a=GPU switch=PCI nvlink=N NVLinks from a card to an NVSwitch
    path     a=GPU b=GPU level=internal|single|multiple|hostbridge|node|system
    missing  SYMBOL                    that call answers "function not found"

In an events file, which says what happens; complete lines are applied once
each, in order, by every process that has NVML open:

    xid      [gpu=] code= [gi= ci=]    the one line that is not a state
    back     gpu=
    add      as gpu; a card that was removed comes back to its old index
    remove   gpu=
    unmig    uuid=
    migmode  gpu= on|off
    exit     pid= [gpu=]
    heal     call=SYMBOL [gpu=]

In either:

    mig      gpu= uuid= gi= ci= profile_name= total_mib= [slices=]
             [multiprocessors=]
    process  gpu= pid= used_mib=N|unavailable [type=compute|graphics|mps]
             [gi= ci=] [sm=percent] [mem=percent]
    lost     gpu=
    ecc      gpu= uncorrected=N
    fail     call=SYMBOL error=N [gpu=]
    init     error=N | ok              18 fails every call, as after an upgrade
    eventset error=N | ok
"""
