# mpirun.sh -- for shell tests of several ranks, after lib.sh: changes to $dir, and defines
#   need_ranks            skips the rest unless several ranks can be started
#   ranks N COMMAND       N ranks of it, a minute at most
#   field FILE NAME       the numbers of that name in metrics
#   near A B TOLERANCE    how many lines of files A and B agree
cd "$dir" || exit 1
unset PMI_SIZE PMI_RANK PMIX_RANK OMPI_COMM_WORLD_SIZE SLURM_STEP_NUM_TASKS
# Open MPI wants to be asked before it starts as root, or more ranks than there are processors.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"     # MPI's own
ranks() { ranks_k=$1; shift; timeout 60 mpirun -np "$ranks_k" "$@" </dev/null; }
need_ranks() {
    case $(gpt-train --version) in
    *" mpi "*) ;;
    *) skip "ranks" "built without MPI"; finish;;
    esac
    command -v mpirun >/dev/null || { skip "ranks" "no mpirun"; finish; }
    ranks 2 true >/dev/null 2>&1 || { skip "ranks" "mpirun does not work here"; finish; }
}
field() { sed -n "s/.*\"$2\": \([0-9.]*\).*/\1/p" "$1"; }
near() { paste -d ' ' "$1" "$2" | awk -v may="$3" '{d = $1 - $2; n += d < may && -d < may} END {print n + 0}'; }
