# Links the load at four places, each 16 bytes after the previous one. The address of code changes its speed by some percent,
# which is as much as the cost of a few probes.
PLACES := 16 32 48 64
all: $(PLACES:%=sqload.%)
$(PLACES:%=sqload.%): sqload.%: place.%.s sqlite3.o sqload.o
	$(CC) -O2 $^ -lm -ldl -lpthread -o $@
$(PLACES:%=place.%.s): place.%.s:
	printf '.text\n.skip %d\n.section .note.GNU-stack,"",@progbits\n' $* > $@
sqlite3.o sqload.o: %.o: %.c
	$(CC) -O2 -c $<
